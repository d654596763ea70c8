"""Results as text: tables, sizes, times."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of one width; the first is left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        first, *others = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in others)]).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def mebibytes(size_bytes: float) -> str:
    """For example ``16.0 MiB``."""
    return f"{size_bytes / (1 << 20):,.1f} MiB"


def milliseconds(seconds: float) -> str:
    """For example ``12.34 ms``."""
    return f"{seconds * 1000:,.2f} ms"


def percent(ratio: float) -> str:
    """For example ``98.7 %``."""
    return f"{ratio * 100:.1f} %"


def signed_percent(ratio: float, digits: int = 1) -> str:
    """For example ``−1.3 %`` or ``+0.4 %``."""
    return f"{ratio * 100:+.{digits}f} %".replace("-", "−")
