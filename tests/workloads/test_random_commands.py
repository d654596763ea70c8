"""Random commands for servers under sanitizers, for a moment; and that what is wrong is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workloads.__main__ import main
from workloads.experiment.commands.conversation import Conversation
from workloads.experiment.commands.play import Play
from workloads.experiment.commands.speaker import Command, Speaker
from workloads.experiment.commands.tested_server import PHASES, FoundError, Make, TestedServer
from workloads.local_server import LocalServer
from workloads.supported_servers import supported_servers

COMMANDS = 3000
# Time is no limit here, the number of commands is.
SECONDS = 1000.0
REDIS = supported_servers()["redis"]


def make(way: str) -> Make:
    made = Make(REDIS, way)
    if made.why_not:
        pytest.skip(made.why_not)
    return made


@pytest.fixture
def tested() -> Iterator[TestedServer]:
    with TestedServer(make("patch"), {"enable-debug-command": "yes"}) as server:
        yield server


@pytest.mark.parametrize("phase", ["alone", "append-only", "eviction-replica"])
@pytest.mark.parametrize("way", ["patch", "module"])
def test_random_commands_find_nothing(way: str, phase: str) -> None:
    played = Play(make(way), PHASES[phase], 1, SECONDS, COMMANDS).play()
    assert played.commands >= COMMANDS
    assert played.digests
    assert played.batches


def test_a_seed_draws_the_same_commands_again() -> None:
    first, second = (Speaker("1/alone", has_twin=True) for _ in range(2))
    assert [first.command() for _ in range(500)] == [second.command() for _ in range(500)]


def test_what_cannot_be_run_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "commands", "--server", "redis82", "--way", "patch"]) == 2
    assert "Redis 8.2 can only be sampled by module" in capsys.readouterr().err


def test_a_reply_that_differs_is_found(tested: TestedServer) -> None:
    with LocalServer(binary=make("patch").stock) as twin:
        twin.client.set("k", "other")
        conversation = Conversation([tested, twin], 1)
        conversation.say(0, [Command((b"PING",), "=")])
        with pytest.raises(FoundError, match="replies differ to client 0: GET k"):
            conversation.say(0, [Command((b"GET", b"k"), "=")])
        conversation.close()


def test_memory_that_is_lost_is_found(tested: TestedServer) -> None:
    tested.client.execute_command("DEBUG LEAK", "x" * 100)
    tested.check()
    with pytest.raises(FoundError, match="LeakSanitizer: detected memory leaks"):
        tested.finish()


def test_a_server_that_dies_is_found(tested: TestedServer) -> None:
    with pytest.raises(Exception, match=r"closed|reset|Connection"):
        tested.client.execute_command("DEBUG PANIC")
    tested.process.wait(20)
    with pytest.raises(FoundError, match="the server ended with"):
        tested.check()


def test_what_the_server_itself_is_known_for_is_no_finding(tested: TestedServer) -> None:
    tested.client.eval("return redis.sha1hex(ARGV[1])", 0)
    assert "sha1.c" in (tested.folder / "sanitizer.report").read_text()
    tested.check()
    tested.finish()


def test_no_server_at_a_port_loads_code() -> None:
    with pytest.raises(ValueError, match="at a port"):
        LocalServer({"port": 1, "enable-module-command": "yes"})
