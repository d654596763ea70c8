"""What looks said of real servers, and what came when their recommendation was applied."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidecar.commands.look.look_answer import Answer, gain_error_ratio
from sidecar.look.look_plan import look_plan
from sidecar.look.looking import Looking
from sidecar.look.node_file import node_config
from workloads.experiment.fast_replay import FastServer, Load, Replay
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, Table
from workloads.load import key_sizes, zipf_keys
from workloads.local_server import built
from workloads.table import signed_percent

NAMES = ("a", "b", "c")
SIZE_BYTES, OBJECT_BYTES = 2_500_000, 300
LOOK_SECONDS = 300.0
BEFORE_SECONDS, SETTLE_SECONDS, COUNT_SECONDS = 900, 400, 800
QUICK_SECONDS = 60
NODES_A_SEED = 4
# Of answers: how many come within the stated error, and within twice that.
WANTED = {1: 0.68, 2: 0.95}


@dataclass
class _Played:
    """A server and its load, which goes on second by second."""

    server: FastServer
    reads_per_second: int
    latency_seconds: float
    replay: Replay
    sent: int = 0

    @classmethod
    def begin(cls, stack: ExitStack, draws: np.random.Generator, seconds: int) -> _Played:
        settings: dict[str, object] = {"maxmemory": SIZE_BYTES, "maxmemory-policy": "allkeys-lru"}
        server = stack.enter_context(FastServer(settings, built("bin/redis-server-stock")))
        keys = round(math.exp(draws.uniform(math.log(3_000), math.log(40_000))))
        rate = round(math.exp(draws.uniform(math.log(15), math.log(400))))
        reads = zipf_keys(keys, float(draws.uniform(0.4, 1.1)), rate * seconds, draws)
        sizes = key_sizes(keys, OBJECT_BYTES, draws).astype(np.int64)
        load = Load("drawn", reads.astype(np.int64), sizes, np.zeros(keys))
        return cls(server, rate, float(draws.choice([0.005, 0.02, 0.05])), Replay(server, load))

    def second(self) -> None:
        begin, self.sent = self.sent, self.sent + self.reads_per_second
        self.replay.send(begin, self.sent, self.reads_per_second, lambda: None)

    def misses(self) -> int:
        return int(self.server.client.info("stats")["keyspace_misses"])


def measure(scope: Scope) -> Data:
    """A row for each look: what it said, and what came."""
    count = 1 if scope.is_quick else NODES_A_SEED
    rows = []
    for place, seed in enumerate(scope.seeds):
        for number in range(count):
            done = (place + number / count) / len(scope.seeds)
            scope.progress(f"seed {seed}, node {number + 1}", done)
            rows.append(_look([seed, number], is_quick=scope.is_quick))
    return {"rows": rows}


def _look(seed: list[int], *, is_quick: bool) -> dict[str, Any]:
    times = (BEFORE_SECONDS, round(LOOK_SECONDS), SETTLE_SECONDS, COUNT_SECONDS)
    before, look, settle, count = (QUICK_SECONDS,) * 4 if is_quick else times
    seconds = 2 * (before + look + settle + count)  # a look ends when its last question is answered
    draws = np.random.default_rng(seed)
    with ExitStack() as stack:
        played = {name: _Played.begin(stack, draws, seconds) for name in NAMES}

        def wait(seconds: float) -> None:
            for _ in range(max(1, round(seconds))):
                for one in played.values():
                    one.second()

        def misses_in(seconds: int) -> np.ndarray[Any, Any]:
            begin = [one.misses() for one in played.values()]
            wait(seconds)
            ended = [one.misses() for one in played.values()]
            return (np.array(ended) - begin) / seconds

        wait(before)
        latencies = {name: one.latency_seconds for name, one in played.items()}
        urls = {name: one.server.url for name, one in played.items()}
        config = node_config(urls, len(NAMES) * SIZE_BYTES, latencies)
        clock = played[NAMES[0]].server
        looking = Looking(config.servers, clock=lambda: clock.passed_seconds, wait=wait)
        stack.callback(looking.close)
        looking.run(look, looking.size_bytes, lambda: False, lambda *_: None)
        seen = looking.seen()
        counts = {one.config.name: one.monitor.counts for one in looking.looks}
        found = look_plan(config, seen, counts, looking.size_bytes)
        answer = Answer(seen, looking.refused, found, look, look, guessed_latency=False, init=None)
        plan = found.plan
        for server in sorted(plan.servers, key=lambda one: one.maxmemory_bytes):
            played[server.name].server.client.config_set("maxmemory", server.maxmemory_bytes)
        wait(settle)
        came = misses_in(count)
    reads = np.array([one.reads_per_second for one in played.values()])
    costs = np.array([one.latency_seconds for one in played.values()])
    now = np.array([one.misses / one.seconds for one in seen])
    hits = reads @ np.array([one.cache_latency_seconds for one in found.observation.servers])
    before_seconds = float(now @ costs + hits)
    return {
        "said": _fall(plan.mean_access_time_before_seconds, plan.mean_access_time_seconds),
        "error": gain_error_ratio(answer),
        "came": _fall(before_seconds, float(came @ costs + hits)),
    }


def _fall(before_seconds: float | None, after_seconds: float | None) -> float:
    return 1 - (after_seconds or 0.0) / (before_seconds or 1.0)


def _within(data: Data, times: float) -> float:
    rows: list[Data] = data["rows"]
    within = [row for row in rows if abs(row["came"] - row["said"]) <= times * row["error"]]
    return len(within) / len(rows)


def conclude(data: Data) -> str:
    """Say how many came as they were said."""
    within = " and ".join(f"{100 * _within(data, times):.0f} %" for times in WANTED)
    off = [row["came"] - row["said"] for row in data["rows"]]
    return (
        f"Of {len(off)} looks {within} came within the stated error and twice that; what came was "
        f"{100 * float(np.mean(np.abs(off))):.1f} points off in the mean, and "
        f"{100 * float(np.mean(off)):+.1f} with its sign (more is better than said)."
    )


def missed(data: Data) -> list[str]:
    """List where too few came as they were said."""
    return [
        f"{100 * _within(data, times):.0f} % within {times} stated errors, wanted "
        f"{100 * wanted:.0f} %"
        for times, wanted in WANTED.items()
        if _within(data, times) < wanted
    ]


def tables(data: Data) -> list[Table]:
    """Make a row for each look."""
    columns = {
        "look": lambda row: str(row[0]),
        "said": lambda row: signed_percent(-row[1]["said"]),
        "stated error, points": lambda row: f"{100 * row[1]['error']:.1f}",
        "came": lambda row: signed_percent(-row[1]["came"]),
    }
    return [Table.of("Change of the mean access time", enumerate(data["rows"], 1), columns)]


def draw(figure: Figure, data: Data) -> None:
    """Draw what came over what was said, with the stated error as bars."""
    panel = figure.subplots()
    said, came, error = (
        [100 * row[key] for row in data["rows"]] for key in ("said", "came", "error")
    )
    panel.errorbar(said, came, xerr=error, fmt="C0o", lw=0.8, markersize=4)
    end = max(said + came + [1.0])
    panel.plot([0, end], [0, end], color="0.6", lw=1)
    panel.set(xlabel="fall that was said, %", ylabel="fall that came, %")
    panel.grid(alpha=0.3)


def headlines(data: Data) -> list[Headline]:
    """Return how many came within the error."""
    return [
        Headline(
            "looks of five minutes whose recommendation brought what they said, within the stated "
            "error (and within twice that)",
            f"{100 * _within(data, 1):.0f} % ({100 * _within(data, 2):.0f} %)",
        )
    ]


STUDY = Study(
    name="look-answers",
    title="What a look says",
    question="Does what `spreds look` recommends bring what it said, within the error it states?",
    beside="The thesis has samples of a patched Redis only.",
    method=(
        f"Three stock servers of {SIZE_BYTES / 1e6:g} MB each, with drawn numbers of keys (3,000 "
        "to 40,000), skews (.4 to 1.1), reads (15 to 400 a second) and backends (5, 20 or 50 ms). "
        f"After {BEFORE_SECONDS} s of load they are looked at for {LOOK_SECONDS:g} s. The sizes "
        f"are set at once, and after {SETTLE_SECONDS} s more the misses of {COUNT_SECONDS} s are "
        "counted. Clocks of the servers go as the load says."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    missed=missed,
    differences=("The load stays the same, so that what comes can be what was said.",),
    size_inches=(5.0, 4.0),
)
