"""``spreds mrc`` without the compiled library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sidecar.mrc import timed_curve, trace_curve
from sidecar.traces import lines
from tests.oracles.lifetimes import Lifetimes
from tests.oracles.lru_stack import LruStack
from tests.oracles.trace_stack import PureStack, take_file


@contextmanager
def mrc_in_python() -> Iterator[None]:
    """Lines, stacks and lifetimes are those of Python meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_curve, "TraceStack", PureStack)
        patch.setattr(trace_curve, "take_file", take_file)
        patch.setattr(timed_curve, "LruStack", LruStack)
        patch.setattr(timed_curve, "Lifetimes", Lifetimes)
        patch.setattr(
            lines,
            "_read_compiled",
            lambda whole, _, parse, reading: lines.read_rows(whole, parse, reading),
        )
        yield
