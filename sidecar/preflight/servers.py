"""Whether each server can be reached, resized and sampled.

Whether another sidecar of this machine controls a server already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sidecar.base.plain_text import plain
from sidecar.config.addresses import shown_url
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.curves.curve_readiness import no_curve_reason
from sidecar.look.server_questions import CannotBeLookedAtError, LookedServer
from sidecar.preflight.finding import Finding
from sidecar.preflight.rights import OTHER_NAME, acl_line, check_rights
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.sampling_method import sampler_of, why_not_sampled
from sidecar.servers.connection.server_connection import NONSENSE
from sidecar.servers.connection.server_errors import (
    ITS_WORDS,
    MOST_WORDS,
    MissingRightError,
    ServerDownError,
    ServerRefusedError,
    WrongPasswordError,
)
from sidecar.servers.connection.server_lock import holder_of
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.queue_or_cache import taken_work
from sidecar.state.node_lock import lock_paths, locked_by
from sidecar.state.sidecar_state import SidecarState
from sidecar.state.state_store import load_state
from solver_lambda.documents.units import format_size

# Balancers give connections in turn, or by lot.
OTHER_CONNECTIONS = 3


def check_taken(
    config: SidecarConfig, readings: Mapping[str, ServerReading], running: bool
) -> Iterator[Finding]:
    """Look at the servers' locks and take none. ``running``: a sidecar with this configuration
    does, and may hold them."""
    ours = _own_processes(config) if running else set()
    for name, reading in readings.items():
        holder = holder_of(reading.run_id)
        if holder is not None and str(holder) not in ours:
            yield Finding(
                "problem",
                name,
                f"is controlled by another sidecar, the process {holder}",
                "end that one, or leave the server out of one of the two files: they would undo "
                "each other's sizes",
            )


def _own_processes(config: SidecarConfig) -> set[str]:
    paths = [path for path in lock_paths(config).values() if path.exists()]
    return {locked_by(path) for path in paths}


def check_servers(config: SidecarConfig, readings: dict[str, ServerReading]) -> Iterator[Finding]:
    """Check all servers; what those that answer say goes into ``readings``."""
    state = load_state(config.state_file) if config.state_file else SidecarState()
    for server_config in config.servers:
        server = RedisServer(server_config)
        try:
            reading = server.read()
            taking = taken_work(reading, server_config, state)
            reading = replace(reading, taking_commands=taking)
            tcp_backlog(reading)
            readings[server_config.name] = reading
            yield from _check_reading(server_config, reading)
            if reading.why_no_eviction is None:
                yield from _check_latency(server_config)
            yield from _check_address(server_config, reading.run_id)
            yield from check_rights(server_config, server, looks=reading.is_looked_at)
        except (ServerDownError, ServerRefusedError) as error:
            yield Finding("problem", server_config.name, str(error), _remedy(server_config, error))
        except NONSENSE as error:
            words = f"its answer makes no sense: {plain(str(error))[:MOST_WORDS]}"
            yield Finding("problem", server_config.name, words, "see what listens at its address")
        finally:
            server.close()
    yield from _check_same(readings)


def tcp_backlog(reading: ServerReading) -> int:
    """Return the connections that a server wants to wait for it. Raises as ``NONSENSE``."""
    return int(reading.config.get("tcp-backlog", "0"))


def _remedy(config: ServerConfig, error: Exception) -> str:
    user = config.username or "default"
    match error:
        case WrongPasswordError():
            if config.username is None:  # to rewrite `default` would lock everybody out
                return (
                    f"give the server a user for the sidecar, {acl_line()}, and name it here by "
                    "username and password_file"
                )
            return (
                f"try it with redis-cli --user {user} --askpass; {acl_line(user)} makes such a user"
            )
        case MissingRightError():
            looks = config.sampler == "look"
            return f"give it what it needs: {acl_line(config.username, looks=looks)}"
        case ServerDownError() if ITS_WORDS in str(error):
            return "wait until it has loaded its data, if that is what it does"
        case ServerDownError() if "certificate of " in str(error) or "no TLS with" in str(error):
            return "see ssl_ca_certs, ssl_certfile and ssl_check_hostname of this server"
        case ServerDownError():
            return f"is the server started, and is {shown_url(config.url)} its address?"
        case _ if "unknown command" in str(error):
            return OTHER_NAME
        case _:
            return "see what the server says"


def _check_reading(config: ServerConfig, reading: ServerReading) -> Iterator[Finding]:
    if reading.is_looked_at and no_curve_reason(reading) is None:
        reading = replace(reading, look_refused=_why_not_looked_at(config))
    limit = format_size(reading.maxmemory_bytes) if reading.maxmemory_bytes else "no limit"
    yield Finding(
        "ok",
        config.name,
        f"answers: maxmemory {limit}, {reading.maxmemory_policy}, "
        f"sampler {sampler_of(reading) or 'none'}",
    )
    if why := why_not_sampled(reading):
        yield Finding(
            "problem",
            config.name,
            f"is not sampled, so its curve will not be known: {why}",
            f"loadmodule {_module()} in its file, or MODULE LOAD",
        )
    yield from _check_role(config, reading)
    yield from _check_eviction(config, reading)


def _why_not_looked_at(config: ServerConfig) -> str:
    server = LookedServer(config)
    try:
        server.begin(may_be_empty=True)
    except CannotBeLookedAtError as error:
        return str(error)
    finally:
        server.close()
    return ""


def _module() -> str:
    """Say where the module is, in a checkout that has built it."""
    built = Path(__file__).resolve().parents[2] / "build/lib/spreds.so"
    return str(built) if built.exists() else "spreds.so (redis_patch/build.sh module builds it)"


def _check_role(config: ServerConfig, reading: ServerReading) -> Iterator[Finding]:
    for address in reading.replicas:
        yield Finding(
            "advice",
            config.name,
            f"{address} follows this server and grows with it",
            "count its memory where it runs, unless it is a [[server]] of this node as well",
        )


def _check_eviction(config: ServerConfig, reading: ServerReading) -> Iterator[Finding]:
    if reading.why_no_eviction is not None:
        remedy = "set maxmemory-policy to allkeys-lru if it is a cache, and leave it if it is not"
        if reading.taking_commands:
            remedy = "cache = true in its [[server]] if it may lose keys, and nothing if not"
        size = "keeps its size"
        if reading.role == "slave":
            remedy = "nothing, if it is to be one: it takes part once it is a master"
        if reading.ignores_maxmemory:
            size = "counts with what it uses, which its maxmemory follows"
        yield Finding(
            "advice",
            config.name,
            f"does not evict ({reading.why_no_eviction}): it {size}, and only the others share "
            "what is left",
            remedy,
        )
        if not reading.maxmemory_bytes:
            yield Finding(
                "problem",
                config.name,
                "has no maxmemory and does not evict: nobody knows how much it will take",
                "give it a maxmemory, or a policy that evicts",
            )
    elif not reading.maxmemory_bytes:
        yield Finding(
            "advice",
            config.name,
            "has no maxmemory: SPREDS gives it a limit when it sets sizes",
            "give it one now, if it must not take all that there is until then",
        )


def _check_latency(config: ServerConfig) -> Iterator[Finding]:
    if config.backend_latency_seconds is None:
        yield Finding(
            "advice",
            config.name,
            "has no backend_latency: until enough fills of its misses are measured, it gives no "
            "memory to others",
            'say what a miss costs, if only roughly: backend_latency = "20ms"',
        )


def _check_address(config: ServerConfig, run_id: str) -> Iterator[Finding]:
    """Whether other connections come to the same process."""
    for _ in range(OTHER_CONNECTIONS):
        other = RedisServer(config)
        try:
            if other.read().run_id != run_id:
                yield Finding(
                    "problem",
                    config.name,
                    "is several servers: another connection comes to another one, as through a "
                    "balancer",
                    "name each server by its own address",
                )
                return
        finally:
            other.close()


def _check_same(readings: dict[str, ServerReading]) -> Iterator[Finding]:
    names: dict[str, str] = {}
    for name, reading in readings.items():
        first = names.setdefault(reading.run_id, name)
        if first != name:
            yield Finding(
                "problem",
                name,
                f"is the same server as {first}, or it lies about its run_id",
                "name each server once",
            )


def worst(findings: Sequence[Finding]) -> bool:
    """Whether something keeps SPREDS from working."""
    return any(finding.level == "problem" for finding in findings)
