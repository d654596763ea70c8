"""Sets up all tests: no property depends on how fast the machine is just now. It also says which
tests stay together where several processes share them."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# What the gate tries is always the same, so that a red one is somebody's change; `make properties`
# tries what was never tried.
settings.register_profile(
    "gate",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    max_examples=50,
)
settings.register_profile(
    "search", settings.get_profile("gate"), derandomize=False, max_examples=200
)
settings.load_profile("gate")

# A job in the background may have it ignored, and so would the programs whose end by it is tested.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Read when numpy is first imported. More threads for small products gain nothing, and where others
# need the processors they wait for each other at full speed.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What is made once for all of a folder is made in one process.
_WHOLE_FOLDERS = ("infra", "end_to_end")
# Minutes each: begun last, the other processes would do nothing meanwhile.
_BEGUN_FIRST = (
    "infra",
    "test_server_runtest.py",
    "test_every_attack_has_its_row.py",
    "end_to_end",
    "test_every_fault_has_its_row.py",
    "test_demo_to_its_end.py",
    "test_fault_model.py",
    "test_plans_are_stable.py",
    "test_redis_benchmark.py",
    "test_engine_benchmark.py",
    "test_fuzzing.py",
)


@pytest.fixture(autouse=True)
def no_log_is_left() -> Iterator[None]:
    """A command that logs, run in this process, would count the lines of later tests, too."""
    root = logging.getLogger()
    before, level = set(root.handlers), root.level
    yield
    for handler in set(root.handlers) - before:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.hookimpl(trylast=True)  # when the profile is known
def pytest_configure() -> None:
    """Examples have constants of all files that are loaded by then: others in each process, and
    after each change, so that a red gate was nobody's."""
    if settings.default is not None and settings.default.derandomize:
        providers._get_local_constants = providers.Constants


@pytest.hookimpl(tryfirst=True)  # the marks are read in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests, or those of a whole folder, stay in one process."""
    first = {name: place for place, name in enumerate(_BEGUN_FIRST)}

    def place(item: pytest.Item) -> int:
        last = len(_BEGUN_FIRST)
        return min(first.get(item.path.parent.name, last), first.get(item.path.name, last))

    items.sort(key=place)
    for item in items:
        folder = item.path.parent.name
        group = folder if folder in _WHOLE_FOLDERS else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """What was collected stays to the end: not to look at it again, and seldom at what came since,
    spares a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
