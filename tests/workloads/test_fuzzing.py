"""What comes from outside is read, or refused in one line, at a price in step with its length.

Random commands for servers under sanitizers, for a moment; and that what is wrong is found.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from sidecar.samples.batch import SampleError
from tests.docs.documents import GOLDEN
from workloads.__main__ import main
from workloads.experiment.commands.conversation import Conversation
from workloads.experiment.commands.play import Play
from workloads.experiment.commands.speaker import Command, Speaker
from workloads.experiment.commands.tested_server import PHASES, FoundError, Make, TestedServer
from workloads.experiment.fuzz.command import TARGETS, Target, parsers, run_plainly
from workloads.experiment.fuzz.document_parsers import document_parsers
from workloads.experiment.fuzz.growth import KINDS, cost, inputs
from workloads.experiment.fuzz.mutators import Parser, fuzz
from workloads.local_server import LocalServer, supported_servers

ALL = parsers()
MUTANTS = 6000
SAMPLE_REASONS = {
    "truncated", "magic", "version", "source", "header_length", "record_length",
    "message_length", "sampling", "time", "counters", "operation", "not_sampled",
}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_a_mutant_is_read_or_refused_in_one_line(name: str) -> None:
    parser = ALL[name]
    outcome = fuzz(parser, int(MUTANTS * parser.share), seed=0)
    assert not outcome.findings
    # Mutants that are all refused for one reason would say nothing.
    assert outcome.accepted > outcome.mutants / 100
    assert outcome.refused > outcome.mutants / 100 or not parser.documented


@pytest.mark.parametrize("name", ["observation", "plan", "settings"])
def test_mutants_of_golden_documents_are_read_or_refused(name: str) -> None:
    golden = {name: [path.read_bytes() for path in sorted(GOLDEN.glob(f"{name}-*.json"))]}
    parser = next(one for one in document_parsers(golden) if one.name == name)
    assert len(parser.seeds) >= 3
    assert not fuzz(parser, 1000, seed=0).findings


def test_batches_are_refused_for_every_reason_there_is() -> None:
    parser, draw, reasons = ALL["batch"], random.Random(0), set()
    for _ in range(20_000):
        try:
            parser.read(parser.mutate(draw))
        except SampleError as error:
            reasons.add(error.reason)
    assert reasons == SAMPLE_REASONS


@pytest.mark.parametrize(
    ("error", "finding"),
    [
        (KeyError("x"), "KeyError"),
        (AssertionError("let through"), "let through"),
        (ValueError("two\nlines"), "cannot be printed"),
        (ValueError(""), "without words"),
        (ValueError("x" * 20_000), "20000 characters"),
    ],
)
def test_what_is_wrong_is_found_with_its_input(error: Exception, finding: str) -> None:
    def read(data: bytes) -> None:
        if data == b"mutant":
            raise error

    parser = Parser("broken", [b"seed"], lambda _: b"mutant", read, (ValueError,))
    found, data = fuzz(parser, 1, seed=0).findings[0]
    assert finding in found
    assert data == b"mutant"


@pytest.mark.parametrize("name", ALL)
def test_ten_times_the_input_costs_no_more_than_ten_times_as_much(name: str) -> None:
    parser = ALL[name]
    # Python's TOML reader makes a square of the dots in a key; an operator writes this file.
    for kind in KINDS if name != "node" else KINDS.keys() - {"parts of a key"}:
        for small, large in zip(
            inputs(parser, kind, 1000), inputs(parser, kind, 10_000), strict=True
        ):
            one, ten = cost(parser, small), cost(parser, large)
            assert ten.calls <= 12 * one.calls + 200, kind
            # A list takes more than its text, but not more for each byte if there are more.
            assert ten.peak_bytes <= 12 * one.peak_bytes + 100_000, kind


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_c_takes_whatever_comes(target: Target) -> None:
    ran = run_plainly(target, 2000 if target.name == "stack" else 10_000, seed=1)
    assert not ran.report, ran.report


def test_the_command_prints_a_table_and_knows_its_parsers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["experiment", "fuzz", "--parser", "order", "--mutants", "200"]) == 0
    assert "all         200" in capsys.readouterr().out
    assert main(["experiment", "fuzz", "--parser", "ordre"]) == 2
    assert main(["experiment", "fuzz", "--seconds", "3"]) == 2
    assert "'ordre' is none of plan, " in capsys.readouterr().err


def test_a_seed_draws_the_same_mutants_again() -> None:
    for parser in parsers().values():
        drawn = [[parser.mutate(random.Random(7)) for _ in range(3)] for _ in range(2)]
        if parser.name != "notification":  # it has the time in it
            assert drawn[0] == drawn[1]
    assert json.loads(ALL["plan"].seeds[0])["kind"] == "spreds.plan"


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
