"""What each command does to keys, worked out by hand: the records that a sampler must make of it.

The servers' own list of commands is checked against this one, so that none is forgotten.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """One command: ``setup`` (commands, separated by ``;``) runs before it.

    ``patch`` holds what a patched server records: ``hit k; write k``. ``module`` is what the module
    records where that differs, ``module_70`` the same on Redis 7.0, if that differs again.
    """

    setup: str
    command: str
    patch: str
    module: str | None = None
    module_70: str | None = None

    def expected(self, source: str) -> list[str]:
        """Sorted events for ``patch`` or ``module``, with ``_valkey`` or ``module_70``."""
        text = self.patch
        if source == "patch_valkey":
            text = PATCH_ON_VALKEY.get((self.setup, self.command), text)
        elif source != "patch" and self.module is not None:
            text = self.module
        if source == "module_70" and self.module_70 is not None:
            text = self.module_70
        if source == "module_valkey":
            text = ON_VALKEY.get(self.command, text)
        return sorted(event.strip() for event in text.split(";") if event.strip())


def removing(setup: str, command: str, key: str = "k") -> Case:
    """A command that takes something out of ``key``: Redis 7.0 has no way to see that it did."""
    return Case(setup, command, f"write {key}", module_70="")


def reading(setup: str, command: str, *keys: str) -> Case:
    """A command that finds each of ``keys``."""
    return Case(setup, command, ";".join(f"hit {key}" for key in keys or ("k",)))


# Valkey says so of a key whose new TTL is already over.
ON_VALKEY = {"EXPIRE k -1": "expiry k"}

LIST = "RPUSH k a b c"
LISTS = "RPUSH k a b c; RPUSH j x"
SET = "SADD k a b c"
SETS = "SADD k a b c; SADD j b c d"
HASH = "HSET k f 1 g 2"
ZSET = "ZADD k 1 a 2 b 3 c"
ZSETS = "ZADD k 1 a 2 b; ZADD j 3 b 4 c"
GEO = "GEOADD k 13.36 38.11 a 15.08 37.50 b"
STREAM = "XADD k 1-1 f v; XADD k 1-2 f v"
GROUP = f"{STREAM}; XGROUP CREATE k g 0"
PENDING = f"{GROUP}; XREADGROUP GROUP g c COUNT 1 STREAMS k >"

# Valkey takes the key away before it signals that it is modified, and HGETEX is a read there.
PATCH_ON_VALKEY = {
    ("HSET k f 1", "HGETDEL k FIELDS 1 f"): "delete k",
    (HASH, "HGETEX k FIELDS 1 f"): "hit k",
    (HASH, "HGETEX k EX 100 FIELDS 1 f"): "hit k; write k",
    ("HSET k f 1", "HGETEX k PXAT 1 FIELDS 1 f"): "hit k; write k; delete k",
    ("", "HGETEX k FIELDS 1 f"): "miss k",
    ("", "HSETEX k PXAT 1 FIELDS 1 f 1"): "delete k",
}

CASES = [
    # strings
    Case("", "SET k v", "write k"),
    Case("SET k v", "SET k w", "write k"),
    Case("", "SET k v EX 100", "write k"),
    Case("", "SET k v PX 100000 GET", "miss k; write k"),
    Case("SET k v", "SET k w GET", "hit k; write k"),
    Case("SET k v EX 100", "SET k w KEEPTTL", "write k"),
    Case("SET k v", "SET k w XX", "write k"),
    Case("", "SET k v NX", "write k"),
    Case("SET k v", "SET k w NX", "", module_70="write k"),
    Case("", "SET k v XX", "", module_70="write k"),
    Case("SET k v", "SETNX k w", "", module_70="write k"),
    Case("SET k v", "MSETNX k v j w", "", module_70="write k; write j"),
    Case("SET k v", "INCR k", "", "write k"),
    Case("", "SETNX k v", "write k"),
    Case("", "SETEX k 100 v", "write k"),
    Case("", "PSETEX k 100000 v", "write k"),
    Case("SET k v", "GETSET k w", "hit k; write k"),
    Case("", "GETSET k w", "miss k; write k"),
    Case("SET k v", "GET k", "hit k"),
    Case("", "GET k", "miss k"),
    Case("SET k v", "GETDEL k", "hit k; delete k"),
    Case("", "GETDEL k", "miss k"),
    Case("SET k v", "GETEX k", "hit k"),
    Case("SET k v", "GETEX k EX 100", "hit k; write k"),
    Case("SET k v EX 100", "GETEX k PERSIST", "hit k; write k"),
    Case("", "GETEX k EX 100", "miss k"),
    Case("SET k v; SET j v", "MGET k i j i", "hit k; miss i; hit j; miss i"),
    Case("", "MSET k v j w", "write k; write j"),
    Case("", "MSETNX k v j w", "write k; write j"),
    Case("", "APPEND k v", "write k"),
    Case("", "INCR k", "write k"),
    Case("", "INCRBY k 2", "write k"),
    Case("", "INCRBYFLOAT k 2", "write k"),
    Case("", "DECR k", "write k"),
    Case("", "DECRBY k 2", "write k"),
    Case("", "SETRANGE k 2 v", "write k"),
    reading("SET k value", "GETRANGE k 0 1"),
    reading("SET k value", "SUBSTR k 0 1"),
    reading("SET k value", "STRLEN k"),
    reading("SET k value; SET j vale", "LCS k j", "k", "j"),
    # bits
    Case("", "SETBIT k 3 1", "write k"),
    reading("SET k v", "GETBIT k 3"),
    reading("SET k v", "BITCOUNT k"),
    reading("SET k v", "BITPOS k 1"),
    Case("", "BITFIELD k SET u8 0 7", "write k"),
    reading("SET k v", "BITFIELD k GET u8 0"),
    Case("SET k v", "BITFIELD k GET u8 0 INCRBY u8 8 1", "write k"),
    reading("SET k v", "BITFIELD_RO k GET u8 0"),
    Case("SET k v", "BITOP NOT j k", "hit k; write j"),
    Case("", "PFADD k a", "write k"),
    reading("PFADD k a; PFADD j b", "PFCOUNT k j", "k", "j"),
    Case("PFADD k a; PFADD j b", "PFMERGE k j", "hit k; hit j; write k"),
    # keys
    Case("SET k v", "DEL k i", "delete k"),
    Case("SET k v", "UNLINK k i", "delete k"),
    # Look-ups that leave the key's clock alone are no references.
    Case("SET k v", "EXISTS k i", ""),
    Case("SET k v", "TYPE k", ""),
    Case("SET k v", "TTL k", ""),
    Case("SET k v", "PTTL k", ""),
    Case("SET k v", "EXPIRETIME k", ""),
    Case("SET k v", "PEXPIRETIME k", ""),
    Case("SET k v", "OBJECT ENCODING k", ""),
    Case("SET k v", "OBJECT REFCOUNT k", ""),
    Case("SET k v", "OBJECT IDLETIME k", ""),
    Case("SET k v", "TOUCH k i", "hit k; miss i"),
    Case("SET k v", "EXPIRE k 100", "write k"),
    Case("SET k v", "EXPIRE k -1", "delete k"),
    Case("", "EXPIRE k 100", ""),
    Case("SET k v", "PEXPIRE k 100000", "write k"),
    Case("SET k v", "EXPIREAT k 99999999999", "write k"),
    Case("SET k v", "PEXPIREAT k 99999999999999", "write k"),
    Case("SET k v EX 100", "PERSIST k", "write k"),
    Case("SET k v", "PERSIST k", ""),
    Case("SET k v", "RENAME k j", "delete k; write j"),
    Case("SET k v", "RENAMENX k j", "delete k; write j"),
    Case("SET k v; SET j w", "RENAMENX k j", ""),
    Case("SET k v", "MOVE k 1", "delete k; write k"),
    Case("SET k v EX 100", "EXPIRE k 50 NX", ""),
    Case("", "DEL k", ""),
    Case("SET k v", "COPY k j", "hit k; write j"),
    Case("SET k v; SET j w", "COPY k j", "hit k"),
    Case("SET k v; SET j w", "COPY k j REPLACE", "hit k; write j"),
    reading("SET k v", "DUMP k"),
    Case("", "RESTORE k 0 DUMPED", "write k"),
    Case("", "RESTORE-ASKING k 0 DUMPED", "write k"),
    Case("SET k v", "WATCH k; UNWATCH", ""),
    reading(LIST, "SORT k ALPHA"),
    reading(LIST, "SORT_RO k ALPHA"),
    Case(LIST, "SORT k ALPHA STORE j", "hit k; write j"),
    Case("SET k v", "MEMORY USAGE k", ""),
    # lists
    Case("", "LPUSH k a", "write k"),
    Case("", "RPUSH k a", "write k"),
    Case(LIST, "LPUSHX k a", "write k", module_70=""),
    Case("", "LPUSHX k a", ""),
    Case(LIST, "RPUSHX k a", "write k", module_70=""),
    Case(LIST, "LSET k 0 z", "write k"),
    Case(LIST, "LINSERT k BEFORE b z", "write k"),
    removing(LIST, "LPOP k"),
    Case("RPUSH k a", "LPOP k", "delete k"),
    Case("", "LPOP k", ""),
    removing(LIST, "RPOP k"),
    removing(LIST, "LREM k 1 a"),
    removing(LIST, "LTRIM k 0 1"),
    removing(LIST, "LMPOP 2 i k LEFT"),
    removing(LIST, "BLMPOP 1 2 i k LEFT"),
    removing(LIST, "BLPOP i k 1"),
    removing(LIST, "BRPOP k 1"),
    Case(LISTS, "LMOVE k j LEFT LEFT", "write k; write j", module_70="write j"),
    Case(LISTS, "BLMOVE k j LEFT LEFT 1", "write k; write j", module_70="write j"),
    Case(LISTS, "RPOPLPUSH k j", "write k; write j", module_70="write j"),
    Case(LISTS, "BRPOPLPUSH k j 1", "write k; write j", module_70="write j"),
    reading(LIST, "LRANGE k 0 -1"),
    reading(LIST, "LLEN k"),
    reading(LIST, "LINDEX k 0"),
    reading(LIST, "LPOS k a"),
    # sets
    Case("", "SADD k a", "write k"),
    removing(SET, "SREM k a"),
    Case("SADD k a", "SREM k a", "delete k"),
    removing(SET, "SPOP k"),
    Case(SETS, "SMOVE k j a", "write k; write j", module_70="write j"),
    reading(SET, "SISMEMBER k a"),
    reading(SET, "SMISMEMBER k a b"),
    reading(SET, "SCARD k"),
    reading(SET, "SMEMBERS k"),
    reading(SET, "SRANDMEMBER k"),
    reading(SET, "SSCAN k 0"),
    reading(SETS, "SINTER k j", "k", "j"),
    reading(SETS, "SINTERCARD 2 k j", "k", "j"),
    reading(SETS, "SUNION k j", "k", "j"),
    reading(SETS, "SDIFF k j", "k", "j"),
    Case(SETS, "SINTERSTORE i k j", "hit k; hit j; write i"),
    Case(SETS, "SUNIONSTORE i k j", "hit k; hit j; write i"),
    Case(SETS, "SDIFFSTORE i k j", "hit k; hit j; write i"),
    # hashes
    Case("", "HSET k f 1", "write k"),
    Case("", "HMSET k f 1", "write k"),
    Case("", "HSETNX k f 1", "write k"),
    Case("", "HINCRBY k f 1", "write k"),
    Case("", "HINCRBYFLOAT k f 1", "write k"),
    removing(HASH, "HDEL k f"),
    Case("HSET k f 1", "HDEL k f", "delete k"),
    reading(HASH, "HGET k f"),
    Case("", "HGET k f", "miss k"),
    reading(HASH, "HMGET k f g"),
    reading(HASH, "HGETALL k"),
    reading(HASH, "HKEYS k"),
    reading(HASH, "HVALS k"),
    reading(HASH, "HLEN k"),
    reading(HASH, "HEXISTS k f"),
    reading(HASH, "HSTRLEN k f"),
    reading(HASH, "HRANDFIELD k"),
    reading(HASH, "HSCAN k 0"),
    # sorted sets
    Case("", "ZADD k 1 a", "write k"),
    Case("", "ZINCRBY k 1 a", "write k"),
    removing(ZSET, "ZREM k a"),
    removing(ZSET, "ZPOPMIN k"),
    removing(ZSET, "ZPOPMAX k"),
    removing(ZSET, "ZMPOP 2 i k MIN"),
    removing(ZSET, "BZMPOP 1 2 i k MIN"),
    removing(ZSET, "BZPOPMIN i k 1"),
    removing(ZSET, "BZPOPMAX k 1"),
    removing(ZSET, "ZREMRANGEBYRANK k 0 0"),
    removing(ZSET, "ZREMRANGEBYSCORE k 1 1"),
    removing("ZADD k 0 a 0 b", "ZREMRANGEBYLEX k [a [a"),
    reading(ZSET, "ZSCORE k a"),
    reading(ZSET, "ZMSCORE k a b"),
    reading(ZSET, "ZCARD k"),
    reading(ZSET, "ZCOUNT k 0 9"),
    reading(ZSET, "ZLEXCOUNT k - +"),
    reading(ZSET, "ZRANK k a"),
    reading(ZSET, "ZREVRANK k a"),
    reading(ZSET, "ZRANGE k 0 -1"),
    reading(ZSET, "ZREVRANGE k 0 -1"),
    reading(ZSET, "ZRANGEBYSCORE k 0 9"),
    reading(ZSET, "ZREVRANGEBYSCORE k 9 0"),
    reading(ZSET, "ZRANGEBYLEX k - +"),
    reading(ZSET, "ZREVRANGEBYLEX k + -"),
    reading(ZSET, "ZRANDMEMBER k"),
    reading(ZSET, "ZSCAN k 0"),
    reading(ZSETS, "ZUNION 2 k j", "k", "j"),
    reading(ZSETS, "ZINTER 2 k j", "k", "j"),
    reading(ZSETS, "ZINTERCARD 2 k j", "k", "j"),
    reading(ZSETS, "ZDIFF 2 k j", "k", "j"),
    Case(ZSETS, "ZUNIONSTORE i 2 k j", "hit k; hit j; write i"),
    Case(ZSETS, "ZINTERSTORE i 2 k j", "hit k; hit j; write i"),
    Case(ZSETS, "ZDIFFSTORE i 2 k j", "hit k; hit j; write i"),
    Case(ZSETS, "ZRANGESTORE i k 0 -1", "hit k; write i"),
    # places
    Case("", "GEOADD k 13.36 38.11 a", "write k"),
    reading(GEO, "GEODIST k a b"),
    reading(GEO, "GEOHASH k a"),
    reading(GEO, "GEOPOS k a"),
    reading(GEO, "GEORADIUS k 15 37 200 km"),
    reading(GEO, "GEORADIUS_RO k 15 37 200 km"),
    Case(GEO, "GEORADIUS k 15 37 200 km STORE j", "hit k; write j"),
    reading(GEO, "GEORADIUSBYMEMBER k a 200 km"),
    reading(GEO, "GEORADIUSBYMEMBER_RO k a 200 km"),
    Case(GEO, "GEORADIUSBYMEMBER k a 200 km STOREDIST j", "hit k; write j"),
    reading(GEO, "GEOSEARCH k FROMMEMBER a BYRADIUS 200 km"),
    Case(GEO, "GEOSEARCHSTORE j k FROMMEMBER a BYRADIUS 200 km", "hit k; write j"),
    # streams
    Case("", "XADD k * f v", "write k"),
    removing(STREAM, "XDEL k 1-1"),
    removing(STREAM, "XTRIM k MAXLEN 1"),
    Case(STREAM, "XSETID k 9-9", "", "write k", module_70=""),
    reading(STREAM, "XLEN k"),
    reading(STREAM, "XRANGE k - +"),
    reading(STREAM, "XREVRANGE k + -"),
    Case(STREAM, "XREAD STREAMS k j 0 0", "hit k; hit k; miss j; miss j", "hit k; miss j"),
    # What not all servers have: a refused or fruitless change is a write to the module (MODULE.md).
    Case("SET k v", "DELEX k", "delete k"),
    Case("SET k v", "DELEX k IFEQ v", "hit k; delete k", "delete k"),
    Case("SET k v", "DELEX k IFEQ w", "hit k", "write k"),
    Case("", "DELEX k IFEQ w", "miss k", ""),
    reading("SET k v", "DIGEST k"),
    Case("SET k v", "DELIFEQ k v", "delete k"),
    Case("SET k v", "DELIFEQ k w", "", "write k"),
    Case("", "DELIFEQ k w", ""),
    Case("", "MSETEX 2 k v j w EX 100", "write k; write j"),
    Case("SET k v", "MSETEX 2 k v j w NX EX 100", "", "write k"),
    Case("SET k v", "MSETEX 1 k w XX EX 100", "write k"),
    Case(HASH, "HEXPIRE k 100 FIELDS 1 f", "write k"),
    Case(HASH, "HPEXPIRE k 100000 FIELDS 1 f", "write k"),
    Case(HASH, "HEXPIREAT k 9999999999 FIELDS 1 f", "write k"),
    Case(HASH, "HPEXPIREAT k 9999999999999 FIELDS 1 f", "write k"),
    Case(HASH, "HEXPIRE k 0 FIELDS 1 f", "write k"),
    Case("HSET k f 1", "HEXPIRE k 0 FIELDS 1 f", "write k; delete k", "delete k"),
    Case(HASH, "HEXPIRE k 100 FIELDS 1 x", "", "write k"),
    Case(HASH, "HEXPIRE k 100 FIELDS 1 f; HPERSIST k FIELDS 1 f", "write k; write k"),
    Case(HASH, "HPERSIST k FIELDS 1 f", "", "write k"),
    reading(HASH, "HTTL k FIELDS 1 f"),
    reading(HASH, "HPTTL k FIELDS 1 f"),
    reading(HASH, "HEXPIRETIME k FIELDS 1 f"),
    reading(HASH, "HPEXPIRETIME k FIELDS 1 f"),
    Case(HASH, "HGETDEL k FIELDS 1 f", "write k"),
    Case("HSET k f 1", "HGETDEL k FIELDS 1 f", "write k; delete k", "delete k"),
    Case(HASH, "HGETDEL k FIELDS 1 x", "", "write k"),
    Case("", "HGETDEL k FIELDS 1 f", ""),
    Case(HASH, "HGETEX k FIELDS 1 f", "", "write k"),
    Case(HASH, "HGETEX k EX 100 FIELDS 1 f", "write k"),
    Case("HSET k f 1", "HGETEX k PXAT 1 FIELDS 1 f", "write k; delete k", "delete k"),
    Case("", "HGETEX k FIELDS 1 f", ""),
    Case("", "HSETEX k EX 100 FIELDS 1 f 1", "write k"),
    Case(HASH, "HSETEX k FNX FIELDS 1 f 1", "", "write k"),
    Case("", "HSETEX k PXAT 1 FIELDS 1 f 1", "write k; delete k", ""),
    Case("HSET k f 1", "HSETEX k PXAT 1 FIELDS 1 f 1", "write k; delete k", "delete k"),
    Case(STREAM, "XDELEX k IDS 1 1-1", "write k"),
    Case(PENDING, "XACKDEL k g IDS 1 1-1", "hit k; write k", "write k"),
    Case(STREAM, "XCFGSET k IDMP-DURATION 10", "", "write k"),
]

# Commands whose records are only checked to be the same under all rates, for their number differs
# between versions: what a stream's consumer groups do.
UNCHECKED = [
    Case(STREAM, "XGROUP CREATE k g 0", ""),
    Case(GROUP, "XGROUP CREATECONSUMER k g c", ""),
    Case(GROUP, "XGROUP SETID k g 0", ""),
    Case(GROUP, "XREADGROUP GROUP g c STREAMS k >", ""),
    Case(PENDING, "XACK k g 1-1", ""),
    Case(PENDING, "XCLAIM k g d 0 1-1", ""),
    Case(PENDING, "XAUTOCLAIM k g d 0 0", ""),
    Case(PENDING, "XPENDING k g", ""),
    Case(GROUP, "XINFO STREAM k", ""),
    Case(GROUP, "XINFO GROUPS k", ""),
    Case(PENDING, "XINFO CONSUMERS k g", ""),
    Case(PENDING, "XGROUP DELCONSUMER k g c", ""),
    Case(GROUP, "XGROUP DESTROY k g", ""),
]

# Commands that name keys but are covered elsewhere, or need what these tests have not.
ELSEWHERE = {
    "eval": "test of scripts",
    "evalsha": "test of scripts",
    "eval_ro": "test of scripts",
    "evalsha_ro": "test of scripts",
    "fcall": "test of scripts",
    "fcall_ro": "test of scripts",
    "migrate": "test of clusters",
    "object|freq": "needs an LFU policy",
    "pfdebug": "for the server's developers",
    "spublish": "its argument is a channel, not a key",
    "ssubscribe": "its argument is a channel, not a key",
    "sunsubscribe": "its argument is a channel, not a key",
}
