"""Works out all sizes when one server's part of a plan is taken back."""

from __future__ import annotations

from collections.abc import Mapping


def sizes_with_one_back(
    name: str, before_bytes: Mapping[str, int], now_bytes: Mapping[str, int], budget_bytes: int
) -> dict[str, int]:
    """Return all sizes now, but ``name`` has what it had before. Where that exceeds the budget,
    those that have grown since give it back, in proportion to what they got and no more than
    that."""
    sizes = {**now_bytes, name: before_bytes[name]}
    excess_bytes = sum(sizes.values()) - budget_bytes
    grown = {
        other: size - before_bytes[other]
        for other, size in sizes.items()
        if size > (before_bytes.get(other) or size)
    }
    grown_bytes = sum(grown.values())
    if excess_bytes > 0 and grown_bytes:
        for other, more_bytes in grown.items():
            sizes[other] -= min(more_bytes, -(-more_bytes * excess_bytes // grown_bytes))
    # A server that got nothing gives nothing.
    sizes[name] -= max(0, min(sizes[name], sum(sizes.values()) - budget_bytes))
    return sizes
