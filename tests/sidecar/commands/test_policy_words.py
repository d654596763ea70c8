"""Another policy is named only where it would bring more than that may be off by."""

from __future__ import annotations

from typing import Any

from sidecar.commands.policy_words import better_words, policy_sentences
from tests.sidecar.example_sidecar import ExampleSidecar

MIB = 1 << 20


def server(*others: tuple[str, float, float]) -> dict[str, Any]:
    """A server of the example, which hits 70 % with its 32 MiB, and others with their errors."""
    found = dict(ExampleSidecar().document["servers"][0])
    found |= {
        "name": "pages",
        "maxmemory_bytes": 32 * MIB,
        "recommended_bytes": 48 * MIB,
        "curve": {"sizes_bytes": [0, 64 * MIB], "miss_ratios": [0.3, 0.3]},
        "other_policies": [
            {
                "setting": "maxmemory-samples" if value.isdigit() else "maxmemory-policy",
                "value": value,
                "hit_ratio": hits,
                "recommended_hit_ratio": hits + 0.05,
                "error_ratio": error,
            }
            for value, hits, error in others
        ],
    }
    return found


def test_what_is_clearly_better_is_told_with_the_command() -> None:
    pages = server(
        ("allkeys-random", 0.72, 0.03), ("allkeys-lfu", 0.81, 0.02), ("10", 0.704, 0.001)
    )
    (told,) = policy_sentences(pages, is_verbose=False)
    assert told == (
        "Under allkeys-lfu it would hit 81.0% with the 32 MiB that it has, and not 70.0% as by its "
        "curve now (the difference ± 2.0 points), and 86.0% with the recommended 48 MiB. To try "
        "it: `CONFIG SET maxmemory-policy allkeys-lfu`; its curve begins anew then."
    )
    assert better_words(pages) == (
        "pages would hit 81.0% and not 70.0% under allkeys-lfu, with what it has"
    )
    _, others = policy_sentences(pages, is_verbose=True)
    assert others == (
        "Beside the 70.0% of now, by its curve, it would hit 72.0% under allkeys-random (± 3.0 "
        "points), 70.4% with maxmemory-samples 10 (± 0.1 points)."
    )


def test_without_a_better_one_or_a_curve_nothing_is_advised() -> None:
    assert better_words(server(("allkeys-lfu", 0.709, 0.001))) is None
    assert better_words(server(("allkeys-lfu", 0.75, 0.06))) is None
    unknown = server(("allkeys-lfu", 0.9, 0.01)) | {"curve": None}
    assert policy_sentences(unknown, is_verbose=True) == []
    assert policy_sentences(server(), is_verbose=True) == []
