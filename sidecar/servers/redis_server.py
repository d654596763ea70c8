"""One Redis (or Valkey) server, as the sidecar sees it: what it reports, and the knobs it has."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sidecar.config.node import SamplingConfig, ServerConfig
from sidecar.servers.server_lock import CLIENT_NAME, check_clients
from sidecar.servers.server_stats import (
    baseline_bytes,
    count_keys,
    counted_memory_bytes,
    unevictable_bytes,
)
from sidecar.servers.unevictable import is_too_small
from solver_lambda.document import DocumentError

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 1.0
TENACITY = "maxmemory-eviction-tenacity"
# In force while a server shrinks, as far as it has them: evictions do not hold up clients
# (measured: p99 of 0.2 ms instead of 436 ms), and the pages that they leave half empty go back to
# the machine, in many short slices (measured: p99 of 0.6 ms instead of 15 ms and more with hz 10).
# In the words of CONFIG GET, so that it can be seen whether they are in force.
GENTLE: Mapping[str, str] = {
    TENACITY: "0",
    "activedefrag": "yes",
    "active-defrag-ignore-bytes": str(4 << 20),
    "active-defrag-cycle-us": "500",  # Valkey 8.1 and later
    "hz": "500",
}
# What the servers come with: put back where a dead sidecar left GENTLE and no word of what it was.
USUAL: Mapping[str, str] = {
    "activedefrag": "no",
    "active-defrag-ignore-bytes": "100mb",
    "hz": "10",
}
_READ_PATTERNS = ("maxmemory*", "active*", "hz", "latency-tracking", "lfu*", "spreds*")
# The patch's knobs and the module's.
_SAMPLER_PREFIXES = ("spreds-", "spreds.")


class ServerDownError(Exception):
    """The server did not answer, or not in time; what was asked of it may still happen."""


class ServerRefusedError(Exception):
    """The server answered that it will not do it."""


@dataclass(frozen=True)
class ServerReading:
    """What one server said of itself at one time."""

    at_seconds: float
    info: Mapping[str, Any]
    config: Mapping[str, str]

    @property
    def run_id(self) -> str:
        """Changes when the server restarts."""
        return str(self.info["run_id"])

    @property
    def maxmemory_bytes(self) -> int:
        """0: unlimited."""
        return int(self.config["maxmemory"])

    @property
    def used_memory_bytes(self) -> int:
        """What counts for ``maxmemory``."""
        return counted_memory_bytes(self.info)

    @property
    def rss_bytes(self) -> int:
        return int(self.info["used_memory_rss"])

    @property
    def tenacity(self) -> int:
        return int(self.config.get(TENACITY, 10))

    @property
    def policy(self) -> str:
        return self.config.get("maxmemory-policy", "noeviction")

    @property
    def evicts(self) -> bool:
        """Whether a full server makes room: not with noeviction, not a replica, and not where the
        policy evicts keys with a TTL only and none has one."""
        if self.policy == "noeviction" or self.info.get("role") == "slave":
            return False
        keys, with_ttl = count_keys(self.info)
        if with_ttl or not keys or not self.policy.startswith("volatile-"):
            return True
        # Where it refuses writes already, it must not keep that size.
        return is_too_small(self.maxmemory_bytes, self.unevictable_bytes)

    @property
    def why_no_eviction(self) -> str:
        """For people; of a server that does not evict."""
        if self.info.get("role") == "slave":
            return "a replica"
        return (
            self.policy if self.policy == "noeviction" else f"{self.policy}, and no key has a TTL"
        )

    @property
    def baseline_bytes(self) -> int:
        """Of ``used_memory_bytes``, what is not keys."""
        return baseline_bytes(self.info, self.config)

    @property
    def unevictable_bytes(self) -> int:
        """Of ``used_memory_bytes``, what no eviction frees."""
        return unevictable_bytes(self.info, self.config, self.policy)

    @property
    def sampler_prefix(self) -> str | None:
        """Of the sampler's knobs: ``spreds-`` (patch), ``spreds.`` (module) or ``None``."""
        for prefix in _SAMPLER_PREFIXES:
            if f"{prefix}endpoint" in self.config:
                return prefix
        return None


class RedisServer:
    """A connection to one server. Not for use by two threads at once.

    Every method raises ``ServerDownError`` or ``ServerRefusedError``.

    Raises:
        DocumentError: the URL has an option or a port that makes no sense.
    """

    def __init__(self, config: ServerConfig) -> None:
        self.name = config.name
        try:
            self._client: redis.Redis = redis.Redis.from_url(
                config.url,
                username=config.username,
                password=config.password,
                socket_timeout=TIMEOUT_SECONDS,
                socket_connect_timeout=TIMEOUT_SECONDS,
                retry=Retry(NoBackoff(), 0),
                decode_responses=True,
            )
            self._connection: Any = self._client.connection_pool.make_connection()
        except (ValueError, TypeError) as error:
            raise DocumentError(f"server {self.name}: url {config.url!r}: {error}") from error
        self._announced = False

    def close(self) -> None:
        """Hang up; the next question connects again."""
        self._announced = False
        self._connection.disconnect()

    def hung_up(self) -> bool:
        """Whether the server has closed the connection since it last answered; sends nothing."""
        try:
            # Nothing is asked, so whatever there is to read is the end.
            ended = bool(self._connection.can_read())
        except (redis.RedisError, OSError):
            ended = True
        if ended:
            self.close()
        return ended

    def announce(self) -> None:
        """On a new connection: say who we are, and look who else controls the server.

        A user who may not do so is not told: then only sidecars of this machine see each other.

        Raises:
            ServerTakenError: another sidecar came before us.
        """
        if self._announced:
            return
        try:
            self._ask("CLIENT SETNAME", CLIENT_NAME)
            check_clients(self._ask("CLIENT LIST"))
        except ServerRefusedError as error:
            log.debug("server %s: sidecars elsewhere are not seen: %s", self.name, error)
        self._announced = True

    def read(self) -> ServerReading:
        """Its state, from INFO and CONFIG GET."""
        info = self._ask("INFO", "default", "commandstats")
        config = self._ask("CONFIG GET", *_READ_PATTERNS)
        return ServerReading(time.time(), info, config)

    def set(self, settings: Mapping[str, object]) -> None:
        """CONFIG SET, all or nothing."""
        words = [str(word) for pair in settings.items() for word in pair]
        self._ask("CONFIG SET", *words)

    def start_sampling(self, reading: ServerReading, sampling: SamplingConfig) -> bool:
        """Give the sampler its knobs, if ``reading`` says that they differ; whether they did."""
        prefix = reading.sampler_prefix
        if prefix is None:
            return False
        wanted = {
            f"{prefix}modulus": str(sampling.modulus),
            f"{prefix}threshold": str(sampling.threshold),
            f"{prefix}endpoint": sampling.endpoint,
        }
        if all(reading.config.get(key) == value for key, value in wanted.items()):
            return False
        self.set(wanted)
        return True

    def stop_sampling(self, prefix: str) -> None:
        """Turn the sampler off."""
        self.set({f"{prefix}endpoint": ""})

    def _ask(self, *command: str) -> Any:
        try:
            self._connection.send_command(*command)
            return self._client.parse_response(self._connection, command[0])  # type: ignore[no-untyped-call]
        except redis.ResponseError as error:
            raise ServerRefusedError(f"{command[0]}: {error}") from error
        except redis.AuthenticationError as error:
            self.close()
            raise ServerRefusedError(f"{command[0]}: {error}") from error
        except (redis.RedisError, OSError) as error:
            # A reply may still be on its way: never take it for the next command's.
            self.close()
            raise ServerDownError(f"{command[0]}: {error}") from error
