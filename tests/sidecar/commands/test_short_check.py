"""``spreds check --connect`` in short: what is ok is counted."""

from __future__ import annotations

import pytest

from sidecar.commands.check import _in_short
from sidecar.preflight.finding import Finding

HERE = "this machine only, by its loopback address"
FINDINGS = [
    Finding("ok", "pages", "answers"),
    Finding("ok", "memory.budget", "the sizes sum to 96 MiB of 96 MiB"),
    Finding("ok", "sampling.endpoint", "only root may write to /run"),
    Finding("ok", "link server pages", HERE),
    Finding("ok", "link samples", HERE),
    Finding("ok", "link solver", "none: the sidecar plans itself"),
    Finding("ok", "sampling.endpoint", "can be bound"),
    Finding("ok", "memory.budget", "is 96 MiB of the machine's 23 GiB"),
    Finding("advice", "machine", "vm.overcommit_memory is 0", "set it"),
]


def _said(findings: list[Finding]) -> list[str]:
    return [f"{one.level} {one.where}: {one.what}" for one in _in_short(findings, {"pages"})]


def test_what_is_ok_is_counted_and_the_budget_told_once() -> None:
    assert _said(FINDINGS) == [
        "ok pages: answers",
        "ok memory.budget: the sizes sum to 96 MiB of 96 MiB",
        "advice machine: vm.overcommit_memory is 0",
        "ok links: 2 addresses of the file are on this machine only",
        "ok others: 4 more are ok, --verbose lists them",
    ]


@pytest.mark.parametrize("level", ["advice", "problem"])
def test_what_asks_for_something_is_told_in_its_place(level: str) -> None:
    too_much = Finding(level, "memory.budget", "more than the machine's", "less")  # type: ignore[arg-type]
    open_link = Finding("advice", "link page", "plain text", "TLS")
    said = _said([*FINDINGS[:7], too_much, open_link])
    assert f"{level} memory.budget: more than the machine's" in said
    assert "advice link page: plain text" in said
    assert "the sizes sum" not in " ".join(said)
    assert _said([]) == []
