"""One phase: commands, knobs, blocked and killed clients, until time or number is reached."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis

from workloads.experiment.commands.conversation import Conversation, LostError
from workloads.experiment.commands.scenes import play_blocked, play_expiry, say_burst
from workloads.experiment.commands.speaker import Speaker
from workloads.experiment.commands.tested_server import FoundError, Make, Phase, TestedServer
from workloads.experiment.commands.vocabulary import Knobs, SampleConsumers
from workloads.local_server import LocalServer

_CLIENTS = 4
_COMMANDS_BETWEEN_DIGESTS = 4000
_REPLICA_SECONDS = 60.0
_ALWAYS: dict[str, object] = {
    "enable-debug-command": "yes",
    "hz": 500,
    "repl-diskless-sync-delay": 0,
    "shutdown-timeout": 2,
    "latency-tracking": "yes",
}


@dataclass(frozen=True)
class Played:
    """What was done: commands, digests compared, knobs turned, batches of samples taken."""

    commands: int
    digests: int
    knobs: int
    batches: int
    seconds: float


class Play:
    """One phase with one seed. ``play`` raises FoundError, which says how it can be repeated.

    ``seconds`` is how long; ``commands``, if it is given, how many at most.
    """

    def __init__(
        self, make: Make, phase: Phase, seed: int, seconds: float, commands: int | None = None
    ) -> None:
        self._make = make._replace(is_sanitized=phase.is_sanitized)
        self._phase = phase
        self._seconds = seconds
        self._commands = commands
        self._speaker = Speaker(f"{seed}/{phase.name}", has_twin=phase.has_twin)
        self._digests = 0

    def play(self) -> Played:
        began = time.monotonic()
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory(prefix="spreds-commands-"))
            consumers = stack.enter_context(SampleConsumers(Path(folder)))
            tested = stack.enter_context(TestedServer(self._make, self._settings()))
            servers: list[LocalServer] = [tested]
            if self._phase.has_twin:
                twin = LocalServer({**_ALWAYS, "enable-module-command": "yes"}, self._make.stock)
                servers.append(stack.enter_context(twin))
            replica = stack.enter_context(self._replica(tested)) if self._has_replica else None
            watched = [server for server in (tested, replica) if server is not None]
            knobs = self._knobs(watched, consumers)
            conversation = Conversation(servers, _CLIENTS)
            stack.callback(conversation.close)
            try:
                self._talk(conversation, knobs, watched, servers)
                conversation.close()
                if self._phase.restarts:
                    self._restart(tested, servers)
                for server in reversed(watched):
                    server.finish()
                if consumers.faults:
                    raise FoundError(f"a batch of samples is malformed: {consumers.faults[0]}")
            except (FoundError, redis.RedisError) as error:
                raise self._with_commands(error, conversation, watched) from error
        return Played(
            conversation.spoken,
            self._digests,
            sum(each.turned for each in knobs),
            consumers.batches,
            time.monotonic() - began,
        )

    @property
    def _has_replica(self) -> bool:
        return self._phase.has_replica

    def _settings(self) -> dict[str, object]:
        # Every user of the machine reaches a port: nobody may load code there.
        way = {"port": _free_port()} if self._has_replica else {"enable-module-command": "yes"}
        return {**_ALWAYS, **way, **self._phase.settings}

    def _replica(self, master: TestedServer) -> TestedServer:
        port = master.client.config_get("port")["port"]
        settings = {**_ALWAYS, "enable-module-command": "yes", "replicaof": f"127.0.0.1 {port}"}
        return TestedServer(self._make, settings)

    def _knobs(self, watched: list[TestedServer], consumers: SampleConsumers) -> list[Knobs]:
        made = [
            Knobs(server.client, self._make, consumers.endpoints, self._speaker.draw)
            for server in watched
        ]
        for knobs in made:
            knobs.sample_everything()
        return made

    def _talk(
        self,
        conversation: Conversation,
        knobs: list[Knobs],
        watched: list[TestedServer],
        servers: list[LocalServer],
    ) -> None:
        draw, speaker = self._speaker.draw, self._speaker
        scenes: list[Callable[[], None]] = [
            lambda: conversation.last.append(draw.choice(knobs).turn()),
            lambda: conversation.last.append(draw.choice(knobs).turn()),
            lambda: play_blocked(conversation, speaker),
            lambda: play_expiry(conversation, speaker),
            lambda: conversation.kill(draw.randrange(conversation.clients)),
        ]
        next_digest = _COMMANDS_BETWEEN_DIGESTS
        ends_at = time.monotonic() + self._seconds
        while time.monotonic() < ends_at and conversation.spoken < (self._commands or 1 << 60):
            try:
                say_burst(conversation, speaker)
                if draw.random() < 0.03:
                    draw.choice(scenes)()
                    _check(watched)
            except LostError:
                # A server that is short of memory hangs up on clients.
                _check(watched)
                if self._phase.has_twin:
                    raise
                conversation.renew()
            if conversation.spoken >= next_digest:
                next_digest += _COMMANDS_BETWEEN_DIGESTS
                self._compare_digests(watched, servers)
        self._compare_digests(watched, servers)

    def _compare_digests(self, watched: list[TestedServer], servers: list[LocalServer]) -> None:
        if len(servers) == 2:
            self._digests += 1
            if _digest(servers[0]) != _digest(servers[1]):
                names = ", ".join(_different_keys(servers[0].client, servers[1].client)[:10])
                raise FoundError(f"the databases of tested server and twin differ: {names}")
        if len(watched) == 2 and not self._replica_follows(*watched):
            names = ", ".join(_different_keys(watched[0].client, watched[1].client)[:10])
            raise FoundError(f"the databases of master and replica differ: {names}")

    def _replica_follows(self, master: TestedServer, replica: TestedServer) -> bool:
        """Whether it comes to have the same; where keys expire the master changes meanwhile."""
        self._digests += 1
        deadline = time.monotonic() + _REPLICA_SECONDS
        while _digest(master) != _digest(replica):
            master.check()
            replica.check()
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def _restart(self, tested: TestedServer, servers: list[LocalServer]) -> None:
        before = _digest(tested)
        tested.finish()
        tested.restart()
        self._digests += 1
        if _digest(tested) != before:
            names = ", ".join(_different_keys(tested.client, servers[-1].client)[:10])
            raise FoundError(f"the append-only file brings back another database: {names}")

    def _with_commands(
        self, error: Exception, conversation: Conversation, watched: list[TestedServer]
    ) -> FoundError:
        words = [str(error)]
        for server in watched:
            try:
                _let_it_end(server)
                server.check()
            except FoundError as found:
                words.append(str(found))
        return FoundError("\n".join(["the last commands:", *conversation.last, *words]))


def _check(servers: list[TestedServer]) -> None:
    for server in servers:
        _let_it_end(server)
        server.check()


def _let_it_end(server: TestedServer) -> None:
    """A process that a sanitizer ends takes a moment to say why."""
    deadline = time.monotonic() + 5
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            server.client.ping()
            return
        except redis.RedisError:
            time.sleep(0.05)


def _digest(server: LocalServer) -> Any:
    client: Any = server.client
    return client.execute_command("DEBUG DIGEST")


def _different_keys(first: redis.Redis, second: redis.Redis) -> list[str]:
    """List keys that are not the same in both, with their database."""
    found = []
    for db in range(4):
        values = []
        for client in (first, second):
            with redis.Redis(connection_pool=redis.ConnectionPool(**_place(client), db=db)) as own:
                names = own.keys("*")
                digests = own.execute_command("DEBUG DIGEST-VALUE", *names) if names else []
                values.append(dict(zip(names, digests, strict=True)))
        one, other = values
        changed = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
        found += [f"{db}:{name!r}" for name in sorted(changed)]
    return found


def _place(client: redis.Redis) -> dict[str, Any]:
    pool = client.connection_pool
    return {"connection_class": pool.connection_class, "path": pool.connection_kwargs["path"]}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
