"""Curves that servers of five sizes predict, and what was measured at those sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """A panel for each case and server, in the format that the file's ending names.

    Raises:
        ValueError: an ending that matplotlib does not know.
        OSError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(5 * columns, 3.6 * rows), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel, result in zip(panels, results, strict=False):
        megabytes = [size / 1e6 for size in result["sizes_bytes"]]
        for size, run in zip(megabytes, result["runs"], strict=True):
            sizes, ratios = zip(*run["curve"], strict=True)
            label = f"from {size:.1f} MB"
            panel.plot([size / 1e6 for size in sizes], ratios, linewidth=1, label=label)
        panel.plot(megabytes, result["measured"], "ko", markersize=5, label="measured")
        panel.set(
            title=f"{result['case']}, {result['server']}",
            xlabel="maxmemory, MB",
            ylabel="miss ratio",
            xscale="log",
            xlim=(0.9 * megabytes[0], 1.1 * megabytes[-1]),
            ylim=(0, 1.25 * max(result["measured"])),
        )
        panel.set_xticks(megabytes, [f"{size:.1f}" for size in megabytes])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        panel.legend(fontsize="x-small")
    for panel in panels[len(results) :]:
        panel.set_visible(False)
    figure.savefig(path, dpi=120)
