"""``spreds mrc TRACE...`` prints the miss-ratio curve of a trace, without any server."""

from __future__ import annotations

import sys

from sidecar.base.plain_text import plain
from sidecar.commands.mrc.mrc_options import (
    HIT_RATIO_STEPS,
    MOST_SIMULATED_POINTS,
    OPTIONS,
    POLICIES,
    MrcOptions,
)
from sidecar.commands.mrc.mrc_words import as_json, grid, in_words, spellings
from sidecar.mrc.trace_curve import TraceCurve, estimate_curve_of_file
from sidecar.traces.file import STDIN, TraceError
from sidecar.traces.read_options import ReadOptions, unused_columns
from sidecar.traces.registry import FORMATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

_BAR_WIDTH = 40
# Among so many reads of a cache at least one is for a key that came before.
_ENOUGH = 100
_MOST_UNSIZED_RATIO = 0.01
_DELETES = ("del", "delete", "unlink", "remove", "purge", "invalidate", "flushall", "flushdb")
# Some hours.
_MOST_PLAYED = 1 << 30


class NothingSampledError(TraceError):
    """A sample has no key, so there is no curve."""


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    # A run whose arguments are read plainly needs no argparse.
    from sidecar.commands.arguments import typed

    parser = commands.add_parser(
        "mrc",
        help="print the miss-ratio curve of a trace",
        description="Print the miss ratio of a cache, by its size, for each trace. "
        f"Formats are {', '.join(FORMATS)}; a trace may be compressed with zst, xz, gz or bz2.",
        epilog=_columns(),
    )
    parser.add_argument(
        "traces", metavar="TRACE", nargs="+", help="a trace of requests; - is standard input"
    )
    groups: dict[str, Any] = {"": parser}
    for name, option in OPTIONS.items():
        if option.group not in groups:
            groups[option.group] = parser.add_mutually_exclusive_group()
        how: dict[str, Any] = {"action": "store_true"}
        if option.read:
            how = {"type": typed(option.read), "metavar": option.metavar}
            how |= {"action": "append", "default": []} if option.repeats else {}
            how |= {"default": option.default} if option.default is not None else {}
        groups[option.group].add_argument(f"--{name}", help=option.help, **how)
    parser.set_defaults(execute=execute, logs=False)


def _columns() -> str:
    """Say what a CSV is to have."""
    from sidecar.traces.operations import READS
    from sidecar.traces.table_header import COLUMN_NAMES, KEY_SIZE, OPERATION, REPEATS

    named = {column: ", ".join(names) for column, names in COLUMN_NAMES.items()}
    return (
        "A CSV has the columns time,key,size (seconds; any text; bytes), parted by commas, tabs, "
        "semicolons or blanks, or a "
        f"header that names its columns, in any order: of the key ({named['key']}); of the size, "
        f"for --bytes ({named['size']}; a {KEY_SIZE} is added); of the time, for allkeys-lfu and "
        f"--ttl ({named['time']}). Of the requests with an {OPERATION} (or operation, "
        "command, method and the like), only "
        f"{', '.join(read.decode() for read in READS)} count, and what --reads names; a line with "
        f"an {REPEATS} counts as often as that says. Of block devices, each block of 4 KiB is a "
        "request."
    )


def execute(options: argparse.Namespace | MrcOptions) -> int:
    """Print each trace's curve; 0, 1 for a sample without any key, 2 for a trace that cannot be
    read, of which the others are printed all the same. Raises NotCompiledError."""
    curves, code = [], 0
    try:
        _refuse(options)
        for trace in options.traces:
            try:
                curves.append((trace, _curve(trace, options)))
            except TraceError as error:
                code = max(code, _told(error))
        if options.plot and curves:
            from sidecar.commands.mrc.mrc_picture import draw

            draw(options.plot, curves, in_bytes=options.bytes)
    except TraceError as error:
        return _told(error)
    if not curves:
        return code
    how: dict[str, Any] = {
        "in_bytes": options.bytes,
        "points": options.points,
        "hit_ratios": options.hit_ratio,
    }
    if options.json:
        import json

        print(json.dumps([as_json(trace, curve, **how) for trace, curve in curves], indent=1))
    else:
        for trace, curve in curves:
            print(in_words(trace, curve, **how))
    return code


def _told(error: TraceError) -> int:
    """Say what went wrong, and return the exit code."""
    print(f"spreds: {error}", file=sys.stderr)
    return 1 if isinstance(error, NothingSampledError) else 2


def _curve(trace: str, options: argparse.Namespace | MrcOptions) -> TraceCurve:
    bar = _ProgressBar(trace) if sys.stderr.isatty() and trace != STDIN else None
    try:
        curve = estimate_curve_of_file(
            trace,
            options.format,
            progress=bar,
            in_bytes=options.bytes,
            rate=options.rate,
            limit_objects=options.objects,
            salt=options.salt,
            with_errors=not _played(options) and (options.errors or options.plot is not None),
            reads=options.reads,
        )
    finally:
        if bar:
            bar.clear()
    _refuse_what_is_none(trace, curve, options)
    if not _played(options):
        return curve
    curve = _at_the_sizes(trace, curve, options)
    if curve.went_back:
        print(
            f"spreds: {trace}: {curve.went_back:,} times go back; they are taken for the latest "
            "before",
            file=sys.stderr,
        )
    return curve


def _refuse_what_is_none(
    trace: str, curve: TraceCurve, options: argparse.Namespace | MrcOptions
) -> None:
    """Tell what does not count. Raises TraceError for a curve that would say nothing."""
    dropped = spellings(curve.dropped)
    if not curve.requests:
        if dropped:
            most = next(iter(curve.dropped))
            more = ", and may be given for each spelling" if len(curve.dropped) > 1 else ""
            raise TraceError(
                f"{trace}: none of its requests is a read, it has {dropped}: --reads "
                f"{most or repr(most)} counts those{more}"
            )
        raise TraceError(f"{trace}: the trace has no requests")
    if dropped:
        deletes = any(name.lower() in _DELETES for name in curve.dropped)
        stays = "; what they delete is read on as if it were there" if deletes else ""
        print(
            f"spreds: {trace}: not counted, since they are no reads: {dropped} (--reads counts "
            f"them){stays}",
            file=sys.stderr,
        )
    if curve.unsized_ratio > _MOST_UNSIZED_RATIO:
        print(
            f"spreds: {trace}: of the reads at its beginning, {curve.unsized_ratio:.1%} have the "
            "size 0, as misses have in some logs: their objects take nothing here until a read has "
            "their size",
            file=sys.stderr,
        )
    if options.format is None and curve.sampled >= _ENOUGH and curve.compulsory_miss_ratio == 1:
        key = f"the column {curve.columns['key']!r}" if curve.columns else "what was taken for it"
        raise TraceError(
            f"{trace}: no key comes twice in {curve.requests:,} requests: is {key} the key? If "
            "not, name another column 'key'; if so, --format says that it is"
        )
    if not curve.sampled:
        raise NothingSampledError(
            f"{trace}: the sample has none of the keys of {curve.requests:,} requests: take a "
            "larger --rate, or another --salt"
        )
    if _played(options) and curve.requests > _MOST_PLAYED:
        raise TraceError(
            f"{trace}: has {curve.requests:,} requests, counting op_count: with {_played(options)} "
            f"each is played, so take a trace of {_MOST_PLAYED:,} at most"
        )


def _played(options: argparse.Namespace | MrcOptions) -> str:
    """Return the option for which the trace is read once more, by caches of the sizes that are
    printed."""
    if options.policy != POLICIES[0]:
        return f"--policy {options.policy}"
    return "" if options.ttl is None else "--ttl"


def _at_the_sizes(
    trace: str, lru: TraceCurve, options: argparse.Namespace | MrcOptions
) -> TraceCurve:
    sizes = grid(lru, options.points)
    if options.hit_ratio:
        sizes = sorted({*sizes, *grid(lru, HIT_RATIO_STEPS)})
    read_options = ReadOptions(
        in_bytes=options.bytes,
        timed=options.ttl is not None,
        may_lack=unused_columns(in_bytes=options.bytes, timed=True),
        ticks_per_second=options.time_unit,
        reads=options.reads,
    )
    file = (trace, options.format, read_options)
    how: dict[str, Any] = {"rate": options.rate, "salt": options.salt}
    if options.ttl is not None:
        from sidecar.mrc.timed_curve import timed_curve_of_file

        return timed_curve_of_file(*file, lru, sizes, ttl_seconds=options.ttl, **how)
    from sidecar.mrc.simulated_curve import simulate_lfu_of_file

    return simulate_lfu_of_file(*file, lru, sizes, **how)


def _refuse(options: argparse.Namespace | MrcOptions) -> None:
    """Refuse what cannot be done together. Raises TraceError."""
    played = _played(options)
    if not played:
        return
    if options.policy != POLICIES[0] and options.ttl is not None:
        raise TraceError(f"--ttl needs --policy {POLICIES[0]}, not {options.policy}")
    if options.objects is not None:
        raise TraceError(f"{played} needs a --rate and cannot take --objects")
    if STDIN in options.traces:
        raise TraceError(f"{played} reads twice, which standard input cannot")
    if options.points > MOST_SIMULATED_POINTS:
        raise TraceError(
            f"{played} counts for a cache at each point: --points must be at most "
            f"{MOST_SIMULATED_POINTS}, not {options.points}"
        )
    if options.errors:
        raise TraceError(f"{played} cannot tell its --errors")


class _ProgressBar:
    def __init__(self, trace: str) -> None:
        self._name = plain(trace.rpartition("/")[2])
        self._drawn = -1
        # It moves the cursor, which what commands print must not.
        self._terminal = sys.__stderr__ or sys.stderr

    def __call__(self, share: float) -> None:
        width = int(share * _BAR_WIDTH)
        if width != self._drawn:
            self._drawn = width
            bar = "#" * width + "." * (_BAR_WIDTH - width)
            self._terminal.write(f"\r{self._name} [{bar}] {share:4.0%}")
            self._terminal.flush()

    def clear(self) -> None:
        self._terminal.write("\r\x1b[K")
