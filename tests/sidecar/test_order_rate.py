"""Orders within bounds of time, for each who gives them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.control.order_rate import OrderRate


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_a_burst_then_one_each_two_seconds() -> None:
    clock = Clock()
    rate = OrderRate(burst=3, seconds=2.0, now=clock)
    assert [rate.wait_seconds("ann") for _ in range(5)] == [0, 0, 0, 2, 2]
    assert rate.wait_seconds("bob") == 0
    clock.seconds += 2
    assert [rate.wait_seconds("ann") for _ in range(2)] == [0, 2]
    clock.seconds += 1000
    assert [rate.wait_seconds("ann") for _ in range(4)] == [0, 0, 0, 2]


@given(st.lists(st.floats(0, 5), max_size=50), st.integers(1, 5), st.sampled_from([0.5, 1.0, 3.0]))
def test_no_more_than_the_bucket_and_what_flowed_in(
    pauses: list[float], burst: int, seconds: float
) -> None:
    clock = Clock()
    rate = OrderRate(burst, seconds, now=clock)
    taken = 0
    for pause in pauses:
        clock.seconds += pause
        wait = rate.wait_seconds("ann")
        if wait == 0:
            taken += 1
        else:
            assert 0 < wait <= seconds + 1
    assert taken <= burst + (clock.seconds - 100) / seconds + 1e-6


def test_what_is_known_of_strangers_is_bounded() -> None:
    rate = OrderRate(1, 1.0, now=Clock())
    for number in range(5000):
        assert rate.wait_seconds(str(number)) == 0
    assert len(rate._full_at) == 1000
