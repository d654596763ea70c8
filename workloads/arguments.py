"""Types of command-line arguments: what is wrong is said in one sentence.

And what many verbs have: where figures go, and the recorded traces that benchmarks, experiments and
the demonstration use if they are there.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

from solver_lambda.documents.units import parse_duration

PICTURES = (".pdf", ".png", ".svg")


def whole_numbers(text: str) -> tuple[int, ...]:
    """Read whole numbers of at least 1, with commas between them."""
    return tuple(positive(part) for part in text.split(","))


def seed(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, not {text!r}")
    return int(text)


def output_file(text: str) -> Path:
    """A file that can be written when the work is done; tried before it begins."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: there is no folder {path.parent}")
    try:
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: {error.strerror}") from error
    return path


def picture_file(text: str) -> Path:
    """Return a file that can be written, with a suffix that tells a format."""
    if Path(text).suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"must end in {', '.join(PICTURES)}, not {text!r}")
    return output_file(text)


def seconds(text: str) -> float:
    """Return the seconds of a duration such as ``200ms``."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> int:
    """A whole number of at least 1, also as 1e6."""
    number = _float(text)
    if not 1 <= number < 1e15 or number != int(number):
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(number)


def at_least(low: float) -> Callable[[str], float]:
    """The type of a finite number that is not below ``low``."""

    def number(text: str) -> float:
        value = _float(text)
        if not low <= value < math.inf:
            raise argparse.ArgumentTypeError(f"must be a number of at least {low:g}, not {text!r}")
        return value

    return number


def between(low: float, high: float) -> Callable[[str], float]:
    """The type of a number that is above ``low`` and not above ``high``."""

    def number(text: str) -> float:
        value = _float(text)
        if not (low < value <= high and value < math.inf):
            wanted = f"above {low:g}" + ("" if high == math.inf else f" and at most {high:g}")
            raise argparse.ArgumentTypeError(f"must be a number {wanted}, not {text!r}")
        return value

    return number


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


TRACES_FOLDER = Path(__file__).resolve().parents[2] / "shared/traces"
TWITTER = "twitter/twitter_cluster52_1m.csv.zst"
ORM_BUSY = "cache2k/orm-busy.trace.xz"
ORM_NIGHT = "cache2k/orm-night.trace.xz"
# A million requests of the same cluster, as the source package of libcachesim names them.
_OTHER_NAMES = {TWITTER: ("twitter/twitter_cluster52.csv",)}


def trace_file(folder: Path, name: str) -> Path:
    """Find the trace ``name``: in its place in the folder, or in the folder itself.

    It may have the name that it is published by. Where it is not there at all, this is its place.
    """
    names = (name, *_OTHER_NAMES.get(name, ()))
    places = [*(folder / one for one in names), *(folder / Path(one).name for one in names)]
    return next((place for place in places if place.exists()), folder / name)


def add_traces(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add ``--traces``, the folder that has the traces of these ``names``."""
    parser.add_argument(
        "--traces",
        type=_folder,
        default=TRACES_FOLDER,
        metavar="FOLDER",
        help=f"the folder that has {', '.join(map(trace_names, names))}; where they come from "
        "stands in docs/research/evaluation.md (default: ../shared/traces, if it is there)",
    )


def trace_names(name: str) -> str:
    """Return the names by which a trace is looked for."""
    return " or ".join((name, *_OTHER_NAMES.get(name, ())))


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return Path(text)


def add_figures(parser: argparse.ArgumentParser, picture: str | None = None) -> None:
    """Add ``--json`` for figures, and ``--picture`` where ``picture`` says what one shows."""
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="also write the figures here"
    )
    if picture:
        parser.add_argument("--picture", type=picture_file, metavar="FILE", help=picture)


def write_json(file: Path | None, document: object, *, allow_nan: bool = True) -> None:
    """Write JSON if there is a file for it."""
    if file is not None:
        file.write_text(json.dumps(document, indent=1, allow_nan=allow_nan) + "\n")
