"""Writes what ``spreds mrc`` says of a curve: a table, or JSON."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from sidecar.mrc.trace_curve import TraceCurve


def _span(curve: TraceCurve) -> str:
    if curve.span_seconds is None:
        return ""
    from sidecar.commands.printing import about

    return f" in {about(curve.span_seconds)}"


def grid(curve: TraceCurve, points: int) -> list[int]:
    """Return the sizes to show, evenly spaced up to where the curve is flat."""
    largest = curve.sizes[-1] if curve.sizes else 1
    return sorted({round(largest * step / points) for step in range(1, points + 1)})


_MOST_SPELLINGS = 8


def spellings(dropped: Mapping[str, int]) -> str:
    """Say how many requests each operation has; of many operations, the most frequent ones."""
    told = [f"{count:,} of {name!r}" for name, count in dropped.items()]
    more = len(told) - _MOST_SPELLINGS
    return ", ".join(told[:_MOST_SPELLINGS]) + (f" and {more:,} more spellings" * (more > 0))


def as_json(
    trace: str, curve: TraceCurve, *, in_bytes: bool, points: int, hit_ratios: Sequence[float]
) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    sizes = grid(curve, points)
    return {
        "trace": trace,
        "unit": "bytes" if in_bytes else "objects",
        "requests": curve.requests,
        "sampled_requests": curve.sampled,
        "dropped_requests": curve.dropped,
        "columns": curve.columns,
        "unused_columns": list(curve.unused),
        "times_that_went_back": curve.went_back,
        "times_span_seconds": curve.span_seconds,
        "reads_of_size_0_ratio": curve.unsized_ratio,
        "live_objects": curve.live_objects,
        "compulsory_miss_ratio": curve.compulsory_miss_ratio,
        "sizes": sizes,
        "miss_ratios": curve.miss_ratios_at(sizes),
        "greatest_standard_error": max(curve.standard_errors_at(sizes)) if curve.parts else None,
        "for_hit_ratios": [
            {"hit_ratio": ratio, "size": curve.size_for_hit_ratio(ratio)} for ratio in hit_ratios
        ],
    }


def in_words(
    trace: str, curve: TraceCurve, *, in_bytes: bool, points: int, hit_ratios: Sequence[float]
) -> str:
    """Return the text that is printed."""

    def size(value: float) -> str:
        if not in_bytes:
            return f"{value:,.0f}"
        from solver_lambda.documents.units import format_size

        return format_size(value)

    lines = [
        f"{trace}: {curve.requests:,} requests{_span(curve)}, {curve.sampled:,} of sampled keys; "
        f"misses at any size {curve.compulsory_miss_ratio:.4f}",
    ]
    if curve.columns:
        taken = [f"{what} is {name!r}" for what, name in curve.columns.items()]
        others = f"; not used: {', '.join(map(repr, curve.unused))}" if curve.unused else ""
        lines.append(f"of its columns, {', '.join(taken)}{others}")
    lines.append(f"{'bytes' if in_bytes else 'objects':>14}  miss ratio")
    sizes = grid(curve, points)
    for value, ratio in zip(sizes, curve.miss_ratios_at(sizes), strict=True):
        lines.append(f"{size(value):>14}  {ratio:10.4f}")
    if curve.parts:
        error = max(curve.standard_errors_at(sizes))
        lines.append(f"sampled: a standard error of at most {error:.4f} at these sizes")
    for wanted in hit_ratios:
        needed = curve.size_for_hit_ratio(wanted)
        if needed is None:
            most = 1 - curve.compulsory_miss_ratio
            lines.append(f"no size reaches {wanted:g}: at most {most:.3f} of the requests can hit")
        else:
            lines.append(f"hit ratio {wanted:g}: {size(needed)}{'' if in_bytes else ' objects'}")
    return "\n".join(lines)
