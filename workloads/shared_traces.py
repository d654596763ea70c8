"""The recorded traces that benchmarks, experiments and the demonstration use if they are there."""

from __future__ import annotations

import argparse
from pathlib import Path

TRACES_FOLDER = Path(__file__).resolve().parents[2] / "shared/traces"
TWITTER = "twitter/twitter_cluster52_1m.csv.zst"
ORM_BUSY = "cache2k/orm-busy.trace.xz"
ORM_NIGHT = "cache2k/orm-night.trace.xz"
# A million requests of the same cluster, as the source package of libcachesim names them.
_OTHER_NAMES = {TWITTER: ("twitter/twitter_cluster52.csv",)}


def trace_file(folder: Path, name: str) -> Path:
    """Where the trace ``name`` is: in its place in the folder, or in the folder itself.

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
    """By which names a trace is looked for."""
    return " or ".join((name, *_OTHER_NAMES.get(name, ())))


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return Path(text)
