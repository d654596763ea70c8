"""Which mixes there are: the bundled ones, and anyone's own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from workloads.experiment.gain.loads import MissingTraceError
from workloads.experiment.gain.mix import Mix, read_mix

MIXES = Path(__file__).with_name("mixes")
QUICK = ("three", "swap", "loop-fits", "alternating", "growing", "equals")


def mix_files(names: Sequence[str] | None, quick: bool, traces: Path) -> dict[Path, Mix]:
    """The mixes that are asked for, by name or file; ``None``: those that are bundled.

    Of the bundled, one whose traces are missing is left out, and told of, unless it is named.

    Raises:
        DocumentError, TraceError: one cannot be read.
    """
    chosen = names or (QUICK if quick else sorted(path.stem for path in MIXES.glob("*.toml")))
    mixes = {}
    for path in map(_path_of, chosen):
        try:
            mixes[path] = read_mix(path, traces)
        except MissingTraceError as error:
            if names:
                raise
            print(f"experiment gain: without {path.stem}: {error}", file=sys.stderr)
    return mixes


def _path_of(name: str) -> Path:
    bundled = MIXES / f"{name}.toml"
    return bundled if bundled.exists() else Path(name)
