"""``spreds mrc TRACE...``: the miss-ratio curve of a trace, without any server."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from sidecar.kernel.library import library
from sidecar.mrc.trace_curve import TraceCurve, estimate_curve_of_file
from sidecar.traces.file import FORMATS, TraceError
from solver_lambda.documents.units import format_size

_BAR_WIDTH = 40


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = commands.add_parser(
        "mrc",
        help="print the miss-ratio curve of a trace",
        description="Print the miss ratio of an LRU cache, by its size, for each trace. "
        f"Formats are {', '.join(FORMATS)}; a trace may be compressed with zst, xz or gz.",
    )
    parser.add_argument("traces", metavar="TRACE", nargs="+", type=Path, help="a trace of requests")
    parser.add_argument(
        "--format", choices=FORMATS, help="the format, if the file's name does not tell it"
    )
    parser.add_argument(
        "--bytes", action="store_true", help="count sizes in bytes of key and value, not in objects"
    )
    sample = parser.add_mutually_exclusive_group()
    sample.add_argument(
        "--rate", type=_rate, default=1.0, metavar="R", help="sample this share of the keys"
    )
    sample.add_argument(
        "--objects", type=_objects, metavar="N", help="sample so that at most N keys are kept"
    )
    parser.add_argument(
        "--salt", type=_salt, default=0, help="a number that chooses the sample (default: 0)"
    )
    parser.add_argument(
        "--points",
        type=_objects,
        default=20,
        metavar="N",
        help="how many points to print (default: 20)",
    )
    parser.add_argument(
        "--hit-ratio",
        type=_ratio,
        action="append",
        default=[],
        metavar="H",
        help="print how large a cache has this hit ratio; can be repeated",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw the curves into this file (.svg, .png, .pdf)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute, logs=False)


def _objects(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def _salt(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 64:
        raise argparse.ArgumentTypeError(f"must be a whole number below 2^64, not {text!r}")
    return int(text)


def _ratio(text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, not {text!r}")
    return ratio


def _rate(text: str) -> float:
    rate = _ratio(text)
    if rate < 1e-9:
        raise argparse.ArgumentTypeError(f"must be more than 0, not {text!r}")
    return rate


def execute(options: argparse.Namespace) -> int:
    """Print each trace's curve; 0, or 2 for a trace that cannot be read."""
    if library() is None:
        print(
            "spreds: the compiled library is not installed, so this is slow; installing the "
            "package where there is a C compiler builds it",
            file=sys.stderr,
        )
    try:
        curves = [_curve(path, options) for path in options.traces]
        if options.plot:
            _plot(options, curves)
    except TraceError as error:
        print(f"spreds: {error}", file=sys.stderr)
        return 2
    if options.json:
        import json

        print(
            json.dumps(
                [
                    _as_json(path, curve, options)
                    for path, curve in zip(options.traces, curves, strict=True)
                ],
                indent=1,
            )
        )
    else:
        for path, curve in zip(options.traces, curves, strict=True):
            _print(path, curve, options)
    return 0


def _curve(path: Path, options: argparse.Namespace) -> TraceCurve:
    bar = _ProgressBar(path.name) if sys.stderr.isatty() else None
    try:
        curve = estimate_curve_of_file(
            path,
            options.format,
            progress=bar,
            in_bytes=options.bytes,
            rate=options.rate,
            limit_objects=options.objects,
            salt=options.salt,
        )
    finally:
        if bar:
            bar.clear()
    if not curve.requests:
        raise TraceError(f"{path}: the trace has no requests")
    return curve


class _ProgressBar:
    def __init__(self, name: str) -> None:
        self._name = name
        self._drawn = -1

    def __call__(self, share: float) -> None:
        width = int(share * _BAR_WIDTH)
        if width != self._drawn:
            self._drawn = width
            bar = "#" * width + "." * (_BAR_WIDTH - width)
            sys.stderr.write(f"\r{self._name} [{bar}] {share:4.0%}")
            sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r\x1b[K")


def _grid(curve: TraceCurve, points: int) -> list[int]:
    """Sizes to show: evenly spaced up to where the curve is flat."""
    largest = curve.sizes[-1] if curve.sizes else 1
    return sorted({round(largest * step / points) for step in range(1, points + 1)})


def _as_json(path: Path, curve: TraceCurve, options: argparse.Namespace) -> dict[str, Any]:
    sizes = _grid(curve, options.points)
    return {
        "trace": str(path),
        "unit": "bytes" if options.bytes else "objects",
        "requests": curve.requests,
        "sampled_requests": curve.sampled,
        "live_objects": curve.live_objects,
        "compulsory_miss_ratio": curve.compulsory_miss_ratio,
        "sizes": sizes,
        "miss_ratios": curve.miss_ratios_at(sizes),
        "for_hit_ratios": [
            {"hit_ratio": ratio, "size": curve.size_for_hit_ratio(ratio)}
            for ratio in options.hit_ratio
        ],
    }


def _print(path: Path, curve: TraceCurve, options: argparse.Namespace) -> None:
    def size(value: float) -> str:
        return format_size(value) if options.bytes else f"{value:,.0f}"

    print(
        f"{path}: {curve.requests:,} requests, {curve.sampled:,} of sampled keys; "
        f"misses at any size {curve.compulsory_miss_ratio:.4f}"
    )
    sizes = _grid(curve, options.points)
    print(f"{'bytes' if options.bytes else 'objects':>14}  miss ratio")
    for value, ratio in zip(sizes, curve.miss_ratios_at(sizes), strict=True):
        print(f"{size(value):>14}  {ratio:10.4f}")
    for ratio in options.hit_ratio:
        needed = curve.size_for_hit_ratio(ratio)
        if needed is None:
            print(f"hit ratio {ratio:g}: no size is enough")
        else:
            print(f"hit ratio {ratio:g}: {size(needed)}{'' if options.bytes else ' objects'}")


def _plot(options: argparse.Namespace, curves: list[TraceCurve]) -> None:
    """Raises TraceError if it cannot be drawn, OSError if it cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise TraceError(
            "--plot needs the Python package 'matplotlib' (pip install matplotlib)"
        ) from error
    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    for path, curve in zip(options.traces, curves, strict=True):
        # More steps than a picture has pixels would only make the file large.
        sizes = [0, *_grid(curve, 2000)]
        axis.step(sizes, curve.miss_ratios_at(sizes), where="post", label=path.name)
    axis.set_xlabel("cache size, bytes" if options.bytes else "cache size, objects")
    axis.set_ylabel("miss ratio")
    axis.set_ylim(0, 1)
    axis.set_xlim(left=0)
    axis.legend()
    try:
        figure.savefig(options.plot)
    except ValueError as error:
        raise TraceError(f"--plot {options.plot}: {error}") from error
