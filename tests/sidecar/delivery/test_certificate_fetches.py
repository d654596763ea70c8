"""Tests who may make the sidecar fetch certificates, and how often."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sidecar.delivery.signing_certificate import (
    MOST_OF_ONE,
    MOST_SENDERS,
    WINDOW,
    CertificateFetches,
    TooManyFetchesError,
)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def taken(fetches: CertificateFetches, sender: str, times: int = 1) -> int:
    count = 0
    for _ in range(times):
        try:
            fetches.count(sender)
        except TooManyFetchesError:
            continue
        count += 1
    return count


def test_a_sender_has_a_few_a_minute_and_takes_none_of_another() -> None:
    clock = Clock()
    fetches = CertificateFetches(clock)
    assert taken(fetches, "192.0.2.9", 100) == MOST_OF_ONE
    assert taken(fetches, "192.0.2.1") == 1
    words = fetches.problem(is_known=False)
    assert words is not None
    assert (
        "the last one from 192.0.2.9, so plans may be kept out until SNS' certificate is known"
        in words
    )
    clock.now += WINDOW
    assert fetches.problem(is_known=False) is None
    assert taken(fetches, "192.0.2.9") == 1


def test_what_proved_a_message_does_not_count() -> None:
    fetches = CertificateFetches(Clock())
    for _ in range(2 * MOST_OF_ONE):
        assert taken(fetches, "queue") == 1
        fetches.was_good("queue")
    assert fetches.problem(is_known=False) is None
    assert taken(fetches, "queue", 2) == 2
    fetches.was_good("queue")
    assert taken(fetches, "queue", 100) == MOST_OF_ONE - 1


@pytest.mark.parametrize(
    ("network", "genuine"),
    [("192.0.2.{}", "198.51.100.1"), ("2001:db8:0:{}::/64", "2001:db9::/64")],
)
def test_a_network_of_many_addresses_keeps_no_other_one_out(network: str, genuine: str) -> None:
    fetches = CertificateFetches(Clock())
    many = [network.format(number) for number in range(200)]
    assert sum(taken(fetches, one) for one in many) == MOST_SENDERS
    assert taken(fetches, genuine) == 1
    assert taken(fetches, genuine, 100) + 1 == MOST_OF_ONE
    assert sum(taken(fetches, one) for one in many[MOST_SENDERS:]) == 0


def test_the_queue_is_a_sender_that_has_no_address() -> None:
    fetches = CertificateFetches(Clock())
    fetches.was_good("queue")  # of whom none was counted
    assert sum(taken(fetches, f"192.0.2.{number}") for number in range(200)) == MOST_SENDERS
    assert taken(fetches, "queue", 100) == MOST_OF_ONE


def test_all_fetches_are_bounded_however_many_networks_there_are() -> None:
    fetches = CertificateFetches(Clock())
    count = 0
    for number in range(4 * MOST_SENDERS):
        count += taken(fetches, "192.0.2." + str(number % 200), 10)
        count += taken(fetches, f"10.{number}.{number % 7}.1", 10)
    assert count <= 2 * MOST_SENDERS * MOST_OF_ONE
    with pytest.raises(TooManyFetchesError):
        fetches.count("203.0.113.1")
