"""What comes from outside is read, or refused in one line, at a price in step with its length."""

from __future__ import annotations

import json
import random

import pytest

from sidecar.samples.batch import SampleError
from tests.docs.documents import GOLDEN
from workloads.__main__ import main
from workloads.experiment.fuzz.c_targets import TARGETS, Target, run_plainly
from workloads.experiment.fuzz.command import parsers
from workloads.experiment.fuzz.document_parsers import document_parsers
from workloads.experiment.fuzz.fuzzing import Parser, fuzz
from workloads.experiment.fuzz.growth import KINDS, cost, inputs

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
