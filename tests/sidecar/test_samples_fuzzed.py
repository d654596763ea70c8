"""A million malformed batches: each is refused with a reason, or is sound."""

from __future__ import annotations

import importlib.util
from pathlib import Path

REASONS = {
    "truncated", "magic", "version", "source", "header_length", "record_length",
    "message_length", "sampling", "time", "counters", "operation", "not_sampled",
}  # fmt: skip


def test_a_million_mutants_are_refused_or_sound() -> None:
    path = Path(__file__).with_name("fuzz_samples.py")
    spec = importlib.util.spec_from_file_location("fuzz_samples", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outcomes = module.fuzz(1_000_000)
    assert outcomes.total() == 1_000_000
    assert set(outcomes) - {""} == REASONS
