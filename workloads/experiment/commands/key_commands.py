"""Commands on keys, as ``vocabulary.py`` says."""

from __future__ import annotations

KEYS = """
= DEL {key}
= DEL {6*key}
= UNLINK {key}
= EXISTS {6*key}
= TYPE {key}
= TOUCH {6*key}
= RENAME {key} {key}
= RENAMENX {key} {key}
= COPY {key} {key} REPLACE
= COPY {key} {key} DB {db}
= MOVE {key} {db}
= OBJECT ENCODING {key}
~ OBJECT FREQ {key}
~ OBJECT IDLETIME {key}
~ OBJECT REFCOUNT {hash}
~ MEMORY USAGE {key}
* KEYS *
= DBSIZE
~ SCAN 0 COUNT 100
~ SCAN 0 MATCH *1* TYPE hash
! RANDOMKEY
= EXPIRE {key} {far}
= EXPIRE {key} {far} NX
= EXPIRE {key} {far} GT
= EXPIREAT {key} 4000000000
= EXPIREAT {key} 1
= PEXPIRE {key} -1
= PEXPIREAT {key} 4000000000000
= PERSIST {key}
t EXPIRETIME {key}
t PEXPIRETIME {key}
t TTL {key}
t PTTL {key}
! PEXPIRE {key} {soon}
! EXPIRE {key} 1
! SET {string} {value} PX {soon}
! GETEX {string} PX {soon}
! RESTORE {key} {soon} {dumped} REPLACE
~ DUMP {key}
= RESTORE {key} 0 {dumped}
= RESTORE {key} 0 {dumped} REPLACE
= RESTORE {key} 0 {value}
* SORT {list} ALPHA
= SORT {list} LIMIT 0 5 DESC
= SORT {list} BY weight-* GET # GET nothing-*
! SORT {set} ALPHA STORE {list}
* SORT_RO {zset} ALPHA
= DEBUG DIGEST-VALUE {6*key}
= PUBLISH {key} {value}
"""

STRINGS = """
= SET {string} {value}
= SET {string} {value}
= SET {string} {value} EX {far}
= SET {string} {value} NX
= SET {string} {value} XX KEEPTTL
= SET {string} {value} GET
= SET {key} {value}
= SETNX {string} {value}
= SETEX {string} {far} {value}
= PSETEX {string} {far} {value}
= MSET {string} {value} {string} {value}
= MSETNX {string} {value} {string} {value}
= GET {string}
= GET {string}
= GET {key}
= MGET {6*key}
= GETSET {string} {value}
= GETDEL {string}
= GETEX {string} EX {far}
= GETEX {string} PERSIST
= GETRANGE {string} {index} {index}
= SUBSTR {string} {index} {index}
= SETRANGE {string} {small} {value}
= APPEND {string} {value}
= STRLEN {string}
= INCR {string}
= DECR {string}
= INCRBY {string} {integer}
= DECRBY {string} {integer}
= INCRBYFLOAT {string} {float}
= LCS {string} {string} LEN
= SETBIT {string} {small} {bit}
= GETBIT {string} {small}
= BITCOUNT {string} {index} {index} BIT
= BITPOS {string} {bit} {index}
= BITOP XOR {string} {string} {string}
= BITOP NOT {string} {string}
= BITFIELD {string} SET u8 {small} {small} INCRBY i16 #2 {integer} OVERFLOW FAIL INCRBY u4 0 9
= BITFIELD_RO {string} GET i64 0 GET u1 {small}
= PFADD {log} {6*member}
= PFADD {string} {member}
= PFCOUNT {log} {log}
= PFMERGE {log} {log} {log}
"""

LISTS = """
= LPUSH {list} {6*value}
= RPUSH {list} {6*value}
= LPUSH {list} {6*member}
= RPUSHX {list} {member}
= LPOP {list}
= RPOP {list} {small}
= LMPOP 2 {list} {list} LEFT COUNT {small}
= BLMPOP 0.002 2 {list} {list} RIGHT
= BLPOP {list} {list} 0.002
= BRPOP {list} 0.002
= BLMOVE {list} {list} LEFT RIGHT 0.002
= BRPOPLPUSH {list} {list} 0.002
= LMOVE {list} {list} RIGHT LEFT
= RPOPLPUSH {list} {list}
= LRANGE {list} {index} {index}
= LINDEX {list} {index}
= LLEN {list}
= LPOS {list} {member} RANK -1 COUNT 0
= LSET {list} {index} {value}
= LINSERT {list} BEFORE {member} {value}
= LREM {list} {index} {member}
= LTRIM {list} {index} {index}
"""

SETS = """
= SADD {set} {6*member}
= SADD {set} {6*integer}
= SREM {set} {6*member}
* SMEMBERS {set}
= SCARD {set}
= SISMEMBER {set} {member}
= SMISMEMBER {set} {6*member}
= SMOVE {set} {set} {member}
~ SRANDMEMBER {set} {index}
! SPOP {set}
! SPOP {set} {small}
* SPOP {set} 100000
* SINTER {set} {set}
= SINTERCARD 2 {set} {set} LIMIT 3
* SUNION {set} {set}
* SDIFF {set} {set}
= SINTERSTORE {set} {set} {set}
= SUNIONSTORE {set} {set} {set}
= SDIFFSTORE {set} {set} {set}
~ SSCAN {set} 0 COUNT 20
"""

HASHES = """
= HSET {hash} {member} {value} {member} {value}
= HSET {hash} {member} {integer}
= HMSET {hash} {member} {value}
= HSETNX {hash} {member} {value}
= HGET {hash} {member}
= HMGET {hash} {6*member}
* HGETALL {hash}
* HKEYS {hash}
* HVALS {hash}
= HLEN {hash}
= HSTRLEN {hash} {member}
= HEXISTS {hash} {member}
= HDEL {hash} {6*member}
= HINCRBY {hash} {member} {integer}
= HINCRBYFLOAT {hash} {member} {float}
~ HRANDFIELD {hash} {index} WITHVALUES
~ HSCAN {hash} 0 MATCH *m*
"""

SORTED_SETS = """
= ZADD {zset} {score} {member} {score} {member}
= ZADD {zset} GT CH {score} {member}
= ZADD {zset} INCR {score} {member}
= ZINCRBY {zset} {float} {member}
= ZREM {zset} {6*member}
= ZCARD {zset}
= ZCOUNT {zset} ({float} +inf
= ZSCORE {zset} {member}
= ZMSCORE {zset} {6*member}
= ZRANK {zset} {member}
= ZREVRANK {zset} {member}
= ZRANGE {zset} {index} {index} WITHSCORES
= ZRANGE {zset} {index} {index} REV
= ZRANGE {zset} -inf ({float} BYSCORE LIMIT 0 5
= ZRANGESTORE {zset} {zset} {index} {index}
= ZREVRANGE {zset} {index} {index}
= ZRANGEBYSCORE {zset} -inf {float} WITHSCORES
= ZREVRANGEBYSCORE {zset} {float} -inf
= ZREMRANGEBYRANK {zset} {index} {index}
= ZREMRANGEBYSCORE {zset} {float} {float}
= ZADD names{bit} 0 {member} 0 {member} 0 {member}
= ZLEXCOUNT names{bit} - [{member}
= ZRANGEBYLEX names{bit} - [{member}
= ZREVRANGEBYLEX names{bit} + ({member}
= ZREMRANGEBYLEX names{bit} [{member} [{member}
= ZPOPMIN {zset}
= ZPOPMAX {zset} {small}
= ZMPOP 2 {zset} {zset} MIN COUNT 3
= BZPOPMIN {zset} {zset} 0.002
= BZPOPMAX {zset} 0.002
= BZMPOP 0.002 2 {zset} {zset} MAX
= ZUNION 2 {zset} {set} WITHSCORES
= ZINTER 2 {zset} {zset} WEIGHTS 2 3 AGGREGATE MAX
= ZINTERCARD 2 {zset} {zset}
= ZDIFF 2 {zset} {zset} WITHSCORES
= ZUNIONSTORE {zset} 2 {zset} {set} AGGREGATE MIN
= ZINTERSTORE {zset} 2 {zset} {zset}
= ZDIFFSTORE {zset} 2 {zset} {set}
~ ZRANDMEMBER {zset} {index}
~ ZSCAN {zset} 0
= GEOADD {place} {degrees} {degrees} {member}
= GEODIST {place} {member} {member} km
= GEOHASH {place} {6*member}
= GEOPOS {place} {6*member}
= GEOSEARCH {place} FROMLONLAT {degrees} {degrees} BYRADIUS 5000 km ASC COUNT 5 WITHDIST
= GEOSEARCHSTORE {place} {place} FROMMEMBER {member} BYBOX 900 900 km ASC
= GEORADIUS {place} {degrees} {degrees} 2000 km ASC
= GEORADIUSBYMEMBER {place} {member} 2000 km STORE {place}
"""

STREAMS = """
= XADD {stream} {small}-{small} {member} {value}
= XADD {stream} {small}-* {member} {value} {member} {value}
= XADD {stream} MAXLEN ~ 50 {integer}-1 {member} {value}
! XADD {stream} * {member} {value}
= XADD {stream} NOMKSTREAM {integer}-2 {member} {value}
= XLEN {stream}
= XRANGE {stream} - + COUNT 7
= XREVRANGE {stream} + {small} COUNT 7
= XDEL {stream} {small}-{small} {small}-0
= XTRIM {stream} MAXLEN {small}
= XTRIM {stream} MINID {small}
= XSETID {stream} {integer}-{small}
= XREAD COUNT 3 STREAMS {stream} {stream} 0 {small}
= XREAD BLOCK 2 STREAMS {stream} $
= XGROUP CREATE {stream} g{bit} 0 MKSTREAM
= XGROUP CREATE {stream} g{bit} $
= XGROUP CREATECONSUMER {stream} g{bit} c{bit}
= XGROUP DELCONSUMER {stream} g{bit} c{bit}
= XGROUP SETID {stream} g{bit} {small}
= XGROUP DESTROY {stream} g{bit}
= XREADGROUP GROUP g{bit} c{bit} COUNT 5 STREAMS {stream} >
= XREADGROUP GROUP g{bit} c{bit} NOACK STREAMS {stream} >
= XREADGROUP GROUP g{bit} c{bit} BLOCK 2 STREAMS {stream} {stream} > 0
= XACK {stream} g{bit} {small}-{small} {small}-0
= XPENDING {stream} g{bit}
~ XPENDING {stream} g{bit} - + 10 c{bit}
= XCLAIM {stream} g{bit} c{bit} 0 {small}-{small} JUSTID
= XCLAIM {stream} g{bit} c{bit} 0 {small}-0 IDLE 0 FORCE
= XAUTOCLAIM {stream} g{bit} c{bit} 0 0 COUNT 3
~ XINFO STREAM {stream} FULL
~ XINFO GROUPS {stream}
~ XINFO CONSUMERS {stream} g{bit}
"""
