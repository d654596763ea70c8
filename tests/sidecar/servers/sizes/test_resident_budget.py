"""The budget by resident memory, against a model of servers whose pages lag behind their use."""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from sidecar.base.metrics import Metrics
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.sizes.resident_budget import (
    HOLD_SECONDS,
    IDLE_BYTES,
    MARGIN_RATIO,
    SETTLE_SECONDS,
    ResidentBudget,
    headroom_of,
)
from tests.examples import examples
from tests.sidecar.monitored_load import STATS

MB = 1 << 20
HOUR = 3600


def _reading(
    used: float, resident: float, limit: float, copied: float = 0, buffers: float = 0
) -> ServerReading:
    return replace(
        STATS,
        maxmemory_bytes=int(limit),
        counted_bytes=int(used),
        rss_bytes=int(resident),
        copied_bytes=int(copied),
        not_counted_bytes=int(buffers),
    )


@dataclass
class Plant:
    """Servers as one: full after a while, with ``factor`` pages for each byte and ``idle`` bytes
    beside; pages come at once, and go with a time constant of ``lag_seconds``."""

    factor: float
    idle: float
    lag_seconds: float
    noise: float
    fill_per_second: float
    limit: float
    used: float = 0.0
    resident: float = 0.0

    def second(self, budget: float, second: int, *, planned: bool) -> ServerReading:
        # Taken at once; given by the next plan only.
        self.limit = budget if planned else min(self.limit, budget)
        self.used = min(self.limit, self.used + self.fill_per_second)
        wanted = self.idle + self.factor * self.used
        gone = 1 - math.exp(-1 / self.lag_seconds)
        fall = max(0.0, self.resident - wanted) * gone
        self.resident = max(wanted, self.resident - fall)
        shown = self.resident * (1 + self.noise * math.sin(second / 7))
        return _reading(self.used, shown, self.limit)


# A counter-example is as plain as it comes, and to shrink one takes minutes.
@settings(
    max_examples=examples(80), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
@given(
    factor=st.floats(1.0, 1.6),
    idle=st.floats(1 * MB, 12 * MB),
    lag_seconds=st.floats(1, 90),
    noise=st.floats(0, 0.008),
    fill_seconds=st.floats(10, 1.5 * HOUR),
    allowed=st.floats(100 * MB, 8000 * MB),
)
def test_resident_memory_stays_below_and_the_budget_comes_to_rest(
    factor: float,
    idle: float,
    lag_seconds: float,
    noise: float,
    fill_seconds: float,
    allowed: float,
) -> None:
    """Whatever the allocator takes for each byte, within three hours of plans that use all that
    there is: no more is taken than needed, and it does not go up and down."""
    plant = Plant(factor, idle, lag_seconds, noise, allowed / fill_seconds, allowed)
    budget = ResidentBudget(Metrics())
    best = ((1 - MARGIN_RATIO) * allowed - idle) / factor
    sizes, residents = [], []
    size: float = allowed
    for second in range(3 * HOUR):
        seen = plant.second(size, second, planned=second % 600 == 0)
        size = budget.look([seen], int(allowed), second) or 0
        sizes.append(size)
        residents.append(seen.rss_bytes)
    last_hour = slice(2 * HOUR, None)
    assert max(residents[last_hour]) <= allowed
    assert min(sizes) >= 0.93 * best
    assert max(sizes[last_hour]) - min(sizes[last_hour]) <= 0.06 * allowed
    last = sizes[last_hour]
    ups = sum(after > before for before, after in pairwise(last))
    assert ups <= 3


@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    factor=st.floats(1.0, 1.6),
    idle=st.floats(3 * MB, 6 * MB),
    lag_seconds=st.floats(1, 90),
    excess=st.floats(1.03, 1.4),
    watched_first=st.booleans(),
)
@example(factor=1.0, idle=27 / 6 * MB, lag_seconds=10, excess=178 / 139.6, watched_first=True)
def test_full_servers_that_exceed_it_give_what_exceeds_and_no_more(
    factor: float, idle: float, lag_seconds: float, excess: float, watched_first: bool
) -> None:
    """As when somebody sets ``rss_budget`` for a machine that is full, however long pages take."""
    allowed = 170 * MB
    best = ((1 - MARGIN_RATIO) * allowed - 6 * idle) / factor
    used = excess * best
    plant = Plant(factor, 6 * idle, lag_seconds, 0, 0, used, used, 6 * idle + factor * used)
    budget = ResidentBudget(Metrics())
    sizes = [used]
    if watched_first:
        budget.look(_of_six(plant.second(used, 0, planned=False)), allowed, 0, acts=False)
    for second in range(1, 1200):
        seen = plant.second(sizes[-1], second, planned=False)
        sizes.append(budget.look(_of_six(seen), allowed, second) or 0)
        is_below = seen.rss_bytes <= allowed
        assert sizes[-1] >= sizes[-2] or not is_below, "taken below the limit"
    assert plant.resident <= allowed
    assert 0.95 * best <= min(sizes) <= 1.05 * best


def _of_six(reading: ServerReading) -> list[ServerReading]:
    part = replace(
        reading,
        maxmemory_bytes=reading.maxmemory_bytes // 6,
        counted_bytes=reading.counted_bytes // 6,
        rss_bytes=reading.rss_bytes // 6,
    )
    return [part] * 6


def test_what_exceeds_is_taken_at_once_and_once() -> None:
    budget = ResidentBudget(Metrics())
    full = _reading(100 * MB, 100 * MB + IDLE_BYTES, 100 * MB)
    first = budget.look([full], 160 * MB, 0)
    assert first is not None
    over = replace(full, rss_bytes=180 * MB)
    taken = budget.look([over], 160 * MB, 1)
    aim = (1 - MARGIN_RATIO) * 160 * MB
    # Of 174 MiB of pages for 100 MiB of keys.
    assert taken == pytest.approx(100 * MB - (180 * MB - aim) / 1.74, abs=2)
    assert budget.look([over], 160 * MB, 2) == taken  # pages take their time
    worse = replace(over, rss_bytes=190 * MB)
    assert budget.look([worse], 160 * MB, 3) == pytest.approx(taken - 10 * MB / 1.84, abs=2)


def test_what_is_decided_and_not_yet_in_force_is_not_taken_twice() -> None:
    """As with servers that cannot be given another size."""
    budget = ResidentBudget(Metrics())
    over = _reading(178 * MB, 205 * MB, 180 * MB)
    for second in range(90):
        size = budget.look([over], 170 * MB, second)
    assert size == pytest.approx(178 * MB - (205 - 0.98 * 170) * MB / (199 / 178), abs=2)


def test_below_the_limit_nothing_is_taken() -> None:
    """Even if more pages than ever before are needed for each byte."""
    budget = ResidentBudget(Metrics())
    full = _reading(100 * MB, 110 * MB, 100 * MB)
    before = budget.look([full], 160 * MB, 0)
    for second in range(1, 600):
        assert budget.look([replace(full, rss_bytes=159 * MB)], 160 * MB, second) == before


def test_free_pages_inside_of_resident_memory_take_nothing_from_the_budget() -> None:
    """At night half of the keys expire, and their pages stay."""
    budget = ResidentBudget(Metrics())
    full = _reading(120 * MB, 150 * MB, 120 * MB)
    for second in range(60):
        before = budget.look([full], 160 * MB, second)
    half = replace(full, counted_bytes=60 * MB)
    for second in range(60, 60 + HOUR):
        after = budget.look([half], 160 * MB, second)
    assert after == before


def test_a_fork_takes_what_it_copied_last() -> None:
    budget = ResidentBudget(Metrics())
    full = _reading(100 * MB, 100 * MB + IDLE_BYTES, 100 * MB)
    without = budget.look([full], 160 * MB, 0)
    copied = replace(full, copied_bytes=40 * MB)
    with_fork = ResidentBudget(Metrics()).look([copied], 160 * MB, 0)
    assert without is not None
    assert with_fork == pytest.approx(without - 40 * MB, abs=2)
    assert budget.look([replace(full, copied_bytes=60 * MB)], 160 * MB, 1) < 100 * MB
    assert headroom_of([copied])._asdict() == {
        "forks": 40 * MB,
        "fragmentation": IDLE_BYTES,
        "clients": 0,
    }


def test_buffers_of_replicas_are_told_apart_from_fragmentation() -> None:
    one = _reading(50 * MB, 70 * MB, 60 * MB, buffers=5 * MB)
    assert headroom_of([one, one]) == (0, 30 * MB, 10 * MB)


@pytest.mark.parametrize("resident", [161 * MB, 220 * MB])
def test_where_nothing_comes_back_what_was_taken_is_given_back(
    resident: int, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    budget = ResidentBudget(metrics)
    before: float = 150 * MB
    budget.look([_reading(before, 150 * MB, before)], 160 * MB, 0)
    size, sizes = before, []
    with caplog.at_level(logging.WARNING):
        for second in range(1, HOUR):
            seen = _reading(min(size, before), resident, min(size, before))
            size = budget.look([seen], 160 * MB, second) or 0
            sizes.append(size)
    assert budget.is_vain
    assert metrics.value("rss_budget_given_up") == len(caplog.records) == 1
    assert size >= before
    lowered = [second for second, size in enumerate(sizes) if size < before]
    assert len(lowered) < 6 * SETTLE_SECONDS
    if resident == 161 * MB:
        assert min(sizes) > 0.9 * before
    # It grows, so it is tried again; or it comes down by itself.
    for second in range(HOUR, HOUR + 10):
        size = budget.look([_reading(before, resident + 10 * MB, before)], 160 * MB, second) or 0
    assert not budget.is_vain
    assert size < before
    for second in range(HOUR + 10, HOUR + 40):
        budget.look([_reading(size, 150 * MB, size)], 160 * MB, second)
    assert not budget.is_vain


def test_it_rises_slowly_and_by_half() -> None:
    budget = ResidentBudget(Metrics())
    full = _reading(90 * MB, 150 * MB, 90 * MB)
    low = budget.look([full], 160 * MB, 0)
    assert low is not None
    fits = _reading(low, low + IDLE_BYTES, low)  # no page too many: there is room for all of it
    sizes = [
        budget.look([fits], 160 * MB, second) or 0 for second in range(1, 3 * int(HOLD_SECONDS))
    ]
    assert set(sizes[: int(HOLD_SECONDS)]) == {low}
    room = (1 - MARGIN_RATIO) * 160 * MB - IDLE_BYTES - low
    assert sizes[int(HOLD_SECONDS + SETTLE_SECONDS)] == pytest.approx(low + room / 2, abs=2)
    assert sizes == sorted(sizes)


def test_what_clients_took_and_let_go_comes_back_soon() -> None:
    """After a stranger's buffers of 14 seconds the caches were at half for as long as anybody
    looked: from nothing, by half of the room in five minutes."""
    budget = ResidentBudget(Metrics())
    least = 40 * MB

    def look(used: float, limit: float, clients: int, second: int) -> float:
        reading = replace(_reading(used, used + IDLE_BYTES, limit), clients_bytes=clients)
        found = budget.look([reading], 160 * MB, second, least_bytes=least)
        assert found is not None
        return found

    size = before = look(120 * MB, 120 * MB, 0, 0)
    for second in range(1, 15):
        size = look(min(120 * MB, size) + 400 * MB, min(120 * MB, size), 400 * MB, second)
    assert size == least
    for second in range(15, 14 + int(SETTLE_SECONDS)):
        assert look(2 * size, size, 0, second) == least  # fragmented, so that it seems to need more
    # What pages leave room for, and when the first of it is filled, the rest.
    size = look(2 * size, size, 0, 15 + int(SETTLE_SECONDS))
    assert size == pytest.approx(least + (1 - MARGIN_RATIO) * 160 * MB - 2 * least - IDLE_BYTES)
    for second in range(16 + int(SETTLE_SECONDS), 17 + 2 * int(SETTLE_SECONDS)):
        size = look(size, size, 0, second)
    assert size == before


def test_what_a_script_took_and_let_go_comes_back_soon() -> None:
    """Nothing says how much of a server's pages are a script's: they are neither keys' nor clients'
    buffers. One EVAL of 200 MB had halved all caches for five minutes."""
    budget = ResidentBudget(Metrics())

    def look(used: float, beside: float, second: int) -> float:
        reading = _reading(used, 1.1 * used + beside + IDLE_BYTES, max(used, 1))
        found = budget.look([reading], 160 * MB, second, least_bytes=40 * MB)
        assert found is not None
        return found

    before = size = look(120 * MB, 0, 0)
    for second in range(1, 6):
        size = look(min(120 * MB, size), 200 * MB, second)
    assert size < before / 2
    for second in range(6, 5 + int(SETTLE_SECONDS)):
        assert look(size, 0, second) == size
    assert look(size, 0, 6 + int(SETTLE_SECONDS)) == before


def test_what_was_lost_before_a_restart_comes_back_when_there_is_room() -> None:
    """Amid what a stranger holds, whose memory nobody saw as another's then."""
    budget = ResidentBudget(Metrics(), before_fall_bytes=120 * MB)
    held = [budget.look([_reading(50 * MB, 155 * MB, 50 * MB)], 160 * MB, s) for s in range(200)]
    assert max(size or 0 for size in held) < 60 * MB
    let_go = _reading(50 * MB, 60 * MB + IDLE_BYTES, 50 * MB)
    sizes = [budget.look([let_go], 160 * MB, s) for s in range(200, 201 + int(SETTLE_SECONDS))]
    assert set(sizes[:-1]) == {held[-1]}
    assert sizes[-1] == 120 * MB


def test_a_start_takes_nothing_below_the_limit() -> None:
    """However much stands beside keys then: it may be a stranger's, and go."""
    budget = ResidentBudget(Metrics())
    held = _reading(50 * MB, 158 * MB, 120 * MB)
    assert budget.look([held], 160 * MB, 0) == 120 * MB


def test_who_does_not_answer_at_a_start_loses_nothing_for_that() -> None:
    """A slow script in one of them as the sidecar came again took 23 of 96 MiB for good, although
    resident memory was never too much."""
    budget = ResidentBudget(Metrics())
    full = _reading(50 * MB, 75 * MB, 56 * MB)  # with so many pages for a byte it would be 61 MiB
    assert budget.look([full], 100 * MB, 0.0, unread_bytes=40 * MB) == 96 * MB
    # Above the limit it falls, and what it falls from is what all had.
    budget = ResidentBudget(Metrics())
    fallen = budget.look(
        [_reading(50 * MB, 110 * MB, 56 * MB)], 100 * MB, 0.0, unread_bytes=40 * MB
    )
    assert fallen is not None
    assert fallen < 56 * MB
    calm = _reading(30 * MB, 36 * MB, 36 * MB)
    for second in range(1, 200):
        fallen = budget.look([calm], 100 * MB, second)
    assert fallen is not None
    assert fallen > 90 * MB  # as far as pages leave room for it


def test_a_start_above_the_limit_takes_what_exceeds_and_not_what_is_empty() -> None:
    budget = ResidentBudget(Metrics())
    size = budget.look([_reading(60 * MB, 162 * MB, 120 * MB)], 160 * MB, 0)
    assert size is not None
    assert 110 * MB < size < 120 * MB


def test_what_is_lost_at_a_start_comes_back_whole() -> None:
    budget = ResidentBudget(Metrics())
    least = budget.look([_reading(110 * MB, 260 * MB, 120 * MB)], 160 * MB, 0, least_bytes=40 * MB)
    assert least is not None
    assert least < 80 * MB
    let_go = _reading(least, least + IDLE_BYTES, least)
    for second in range(1, 2 + int(SETTLE_SECONDS)):
        size = budget.look([let_go], 160 * MB, second)
    assert size == 120 * MB


def test_a_pause_takes_nothing_and_forgets_nothing() -> None:
    budget = ResidentBudget(Metrics())
    budget.look([_reading(120 * MB, 120 * MB + IDLE_BYTES, 120 * MB)], 160 * MB, 0)
    held = _reading(120 * MB, 200 * MB, 120 * MB)
    low = budget.look([held], 160 * MB, 1)
    assert low is not None
    held = _reading(low, 150 * MB, low)
    for second in range(2, 9):
        budget.look([held], 160 * MB, second, acts=False)
    resumed = budget.look([held], 160 * MB, 9)
    assert resumed is not None
    assert resumed >= low
    let_go = _reading(low, low + IDLE_BYTES, low)
    for second in range(10, 11 + int(SETTLE_SECONDS)):
        size = budget.look([let_go], 160 * MB, second)
    assert size is not None
    assert size >= 120 * MB


def test_who_takes_and_lets_go_again_and_again_moves_it_ever_less_often() -> None:
    """Each time twice as long, and no longer than five minutes; after five quiet ones as before."""
    budget = ResidentBudget(Metrics())

    def look(size: float, beside: float) -> float:
        reading = _reading(size, 1.1 * size + beside + IDLE_BYTES, size)
        found = budget.look([reading], 160 * MB, next(seconds), least_bytes=40 * MB)
        assert found is not None
        return found

    seconds = itertools.count()
    before = look(120 * MB, 0)
    waits = []
    for quiet_seconds in (0, 0, 0, 0, 0, 0, HOLD_SECONDS):
        for _ in range(int(quiet_seconds)):
            assert look(before, 0) == before
        size = before
        for _ in range(3):
            size = look(size, 200 * MB)
        assert size < before / 2
        waits.append(0)
        while size < before:
            size = look(size, 0)
            waits[-1] += 1
    assert waits == [31, 61, 121, 241, 301, 301, 31]


@given(st.floats(20, 110))
def test_what_is_held_on_and_on_does_not_move_it(beside_mib: float) -> None:
    budget = ResidentBudget(Metrics())
    size: float = 120 * MB
    sizes = []
    for second in range(2000):
        resident = 1.1 * size + IDLE_BYTES + (beside_mib * MB if second else 0)
        reading = _reading(size, resident, size)
        size = budget.look([reading], 160 * MB, second, least_bytes=40 * MB) or 0
        sizes.append(size)
    assert sum(after > before for before, after in pairwise(sizes)) <= 2


def test_who_only_watches_is_told_what_would_fit() -> None:
    """Nothing is taken again and again, which nobody would set."""
    metrics = Metrics()
    budget = ResidentBudget(metrics)
    idle, aim = IDLE_BYTES, (1 - MARGIN_RATIO) * 160 * MB
    over = _reading(160 * MB, 1.5 * 160 * MB + idle, 160 * MB)
    for second in range(600):
        size = budget.look([over], 160 * MB, second, acts=False)
    assert size == pytest.approx((aim - idle) / 1.5, abs=2)
    assert not budget.is_vain
    assert metrics.value("rss_budget_given_up") == 0


def test_without_an_answer_nothing_changes() -> None:
    budget = ResidentBudget(Metrics())
    assert budget.look([], 160 * MB, 0) is None
    size = budget.look([_reading(10 * MB, 16 * MB, 100 * MB)], 160 * MB, 1)
    assert budget.look([], 160 * MB, 2) == size
