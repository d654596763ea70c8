"""The recorded traces that benchmarks, experiments and the demonstration use if they are there."""

from __future__ import annotations

import argparse
from pathlib import Path

TRACES_FOLDER = Path(__file__).resolve().parents[2] / "shared/traces"
TWITTER = "twitter/twitter_cluster52_1m.csv.zst"
ORM_BUSY = "cache2k/orm-busy.trace.xz"
ORM_NIGHT = "cache2k/orm-night.trace.xz"


def add_traces(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add ``--traces``, the folder that has the traces of these ``names``."""
    parser.add_argument(
        "--traces",
        type=Path,
        default=TRACES_FOLDER,
        metavar="FOLDER",
        help=f"the folder that has {', '.join(names)} (default: ../shared/traces)",
    )
