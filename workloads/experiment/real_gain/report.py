"""What is printed: a mix's cycles, and the real gain beside the simulated ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workloads.experiment.gain.mix import Mix
from workloads.experiment.gain.score import LATE_CYCLE, Score, score
from workloads.experiment.gain.simulation import Outcome
from workloads.table import milliseconds, percent, text_table


@dataclass(frozen=True)
class Run:
    """One way to run a mix: with equal shares and with SPREDS.

    Attributes:
        simulated_equal, static: equal shares, and the best sizes that stay, both simulated.
        moves: how often SPREDS decided on other sizes.
    """

    equal: Outcome
    spreds: Outcome
    simulated_equal: Outcome
    static: Outcome
    moves: int

    def share(self) -> float | None:
        """Return the share of the best fixed sizes' simulated gain; ``None``: that is too small."""
        whole = score("", self.static, self.simulated_equal, self.static)
        if whole.share is None:
            return None
        possible = self.simulated_equal.access_seconds() - self.static.access_seconds()
        return (self.equal.access_seconds() - self.spreds.access_seconds()) / possible

    def score(self) -> Score:
        """Score SPREDS beside equal shares."""
        return score("SPREDS", self.spreds, self.equal, self.static)

    def late_gain_ratio(self) -> float | None:
        """Return by how much SPREDS is faster from ``LATE_CYCLE`` on; ``None`` without reads."""
        equal, spreds = (one.access_seconds(LATE_CYCLE - 1) for one in (self.equal, self.spreds))
        return 1 - spreds / equal if equal else None

    def to_json(self) -> dict[str, Any]:
        return {
            "equal_access_seconds": self.equal.cycles_seconds(),
            "spreds_access_seconds": self.spreds.cycles_seconds(),
            "spreds_sizes_bytes": self.spreds.sizes_bytes.tolist(),
            "equal_miss_ratios": (self.equal.misses / self.equal.reads.clip(1)).tolist(),
            "spreds_miss_ratios": (self.spreds.misses / self.spreds.reads.clip(1)).tolist(),
            "gain_ratio": self.score().gain_ratio,
            "late_gain_ratio": self.late_gain_ratio(),
            "share": self.share(),
            "moves": self.moves,
        }


def by_cycle(mix: Mix, runs: Mapping[str, Run]) -> str:
    """Access times and sizes of each cycle."""
    rows = [
        [
            str(cycle + 1),
            name,
            *(milliseconds(part.cycles_seconds()[cycle]) for part in (one.equal, one.spreds)),
            "/".join(f"{size / (1 << 20):.1f}" for size in one.spreds.sizes_bytes[cycle]),
        ]
        for cycle in range(mix.cycles)
        for name, one in runs.items()
    ]
    names = "/".join(server.name for server in mix.servers)
    return text_table(["cycle", "", "equal", "SPREDS", f"MiB: {names}"], rows)


def compared(runs: Mapping[str, Run]) -> str:
    """Compare the whole runs in a table."""
    rows = []
    for name, one in runs.items():
        share, mine, late = one.share(), one.score(), one.late_gain_ratio()
        rows.append(
            [
                name,
                milliseconds(one.equal.access_seconds()),
                milliseconds(one.spreds.access_seconds()),
                percent(mine.gain_ratio),
                "-" if late is None else percent(late),
                f"{100 * mine.worst_cycle_ratio:+.1f} %",
                "-" if share is None else percent(share),
                str(one.moves),
            ]
        )
    header = ["", "equal", "SPREDS", "gain", "late gain", "worst cycle", "share", "moves"]
    return text_table(header, rows)


def apart(real: Run, simulated: Run) -> float:
    """Return by how much real servers and simulation differ, at most: in gain, in late gain, and in
    the access time with equal shares."""
    return max(
        abs(simulated.equal.access_seconds() / real.equal.access_seconds() - 1),
        abs(real.score().gain_ratio - simulated.score().gain_ratio),
        abs((real.late_gain_ratio() or 0.0) - (simulated.late_gain_ratio() or 0.0)),
    )
