"""What sampling costs: the verb end to end, its states, its load, its ratios and intervals."""

from __future__ import annotations

import json
import math
import random
import statistics
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.bench.sampling.costs import COMPARISONS, METRICS, available
from workloads.bench.sampling.instruction_table import BEGIN, END, Count, markdown, write_page
from workloads.bench.sampling.look_verb import instructions
from workloads.bench.sampling.slices import (
    FEWEST,
    KINDS,
    PERCENTILES,
    Kind,
    LoadProgram,
    MedianRatio,
    Target,
    fill,
    median_interval,
    median_ratio,
)
from workloads.bench.sampling.states import OFF, STATES, STOCK, Consumer, Servers
from workloads.local_server import BUILD, LocalServer
from workloads.processes import finished

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("bin/redis-server", "bin/redis-server-stock", "lib/spreds.so")
MISSING = [name for name in NEEDED if not (BUILD / name).exists()]
needs_servers = pytest.mark.skipif(bool(MISSING), reason=f"not built: {', '.join(MISSING)}")


def bench_redis(*arguments: object) -> subprocess.CompletedProcess[str]:
    return finished(
        [sys.executable, "-m", "workloads", "bench", "redis", *map(str, arguments)], timeout=400
    )


def naive_ratios(slices, state, base, kind, metric):
    """Straight from the numbers of the JSON: a state's slice over the mean of the base's."""

    def value(one):
        if metric == "throughput":
            return one["throughput"]
        if metric.startswith("p"):
            return one["latency_seconds"][PERCENTILES.index(float(metric[1:]))]
        return one["process_cpu_seconds" if "all" in metric else "cpu_seconds"]

    ratios = []
    for number in sorted({one["round"] for one in slices}):
        here = [s for s in slices if (s["round"], s["command"], s["pipeline"]) == (number, *kind)]
        of_state = [value(s) for s in here if s["state"] == state]
        of_base = [value(s) for s in here if s["state"] == base]
        mean = math.prod(of_base) ** (1 / len(of_base))
        ratios.append(math.prod(of_state) ** (1 / len(of_state)) / mean)
    return ratios


@needs_servers
def test_the_verb_compares_everything_with_everything_it_says(tmp_path):
    out, picture = tmp_path / "out.json", tmp_path / "out.png"
    done = bench_redis(
        *("--only", "times", "--rounds", 2, "--slice", "5ms", "--json", out, "--picture", picture)
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())

    counted = Counter(
        (s["round"], s["command"], s["pipeline"], s["state"]) for s in result["slices"]
    )
    states = Counter(state.name for state in STATES)
    assert counted == {
        (number, *kind, state): count
        for number in range(2)
        for kind in KINDS
        for state, count in states.items()
    }
    assert states[STOCK.name] == states[OFF.name] == 2

    found = {
        (r["state"], r["base"], r["command"], r["pipeline"], r["metric"]): r
        for r in result["ratios"]
    }
    assert len(found) == len(result["ratios"]) == len(COMPARISONS) * len(KINDS) * len(METRICS)
    for (state, base, *kind, metric), ratio in found.items():
        naive = naive_ratios(result["slices"], state, base, kind, metric)
        assert ratio["ratios"] == pytest.approx(naive)
        assert ratio["median"] == pytest.approx(statistics.median(naive))
        assert (ratio["low"], ratio["high"]) == pytest.approx((min(naive), max(naive)))

    for comparison in COMPARISONS:
        (line, *_) = [x for x in done.stdout.splitlines() if x.startswith(f"{comparison}  ")]
        assert line.count("[") == len(KINDS)
    # 3 targets in use of the module, and of the patch against itself and stock; 1 for each of two
    # consumers that fail.
    assert len(result["verdicts"]) == (3 * 3 + 3 * 2) * len(KINDS)
    assert all(verdict.endswith(": not shown") for verdict in result["verdicts"])  # 2 rounds
    assert result["verdicts"][0] in done.stdout
    assert result["instructions"] == []
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rounds", "0"), "must be a whole number of at least 1, not '0'"),
        (
            ("--slice", "soon"),
            "must be a duration such as '200ms' (us, ms, s, m, h, d), not 'soon'",
        ),
        (("--slice", "0s"), "--slice must be longer than 0"),
        (("--json", "nowhere/out.json"), "there is no folder nowhere"),
        (("--picture", "out.txt"), "must end in .pdf, .png, .svg, not 'out.txt'"),
        (("--only", "instructions", "--picture", "out.png"), "--picture draws times"),
        (("--page", "README.md"), "README.md has no lines <!-- counted: begin -->"),
        (("--page", "nowhere.md"), "No such file or directory: 'nowhere.md'"),
    ],
)
def test_a_wrong_argument_is_refused_with_one_sentence(arguments, message):
    done = bench_redis(*arguments)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@needs_servers
@pytest.mark.skipif(available() is not None, reason=str(available()))
def test_a_question_of_a_look_is_counted_and_costs_no_more_than_a_read():
    counted = instructions(keys=64)
    assert 500 < counted["OBJECT IDLETIME of a key"] < 1.2 * counted["GET"]
    assert 0 < counted["SCAN, for each key"] < counted["GET"]
    assert counted["INFO"] > 10 * counted["GET"]


def test_the_table_of_instructions_replaces_the_one_before(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    counts = [Count("module R=0", "GET", pipeline, 3000.0, 120.4) for pipeline in (1, 16)]
    table = markdown({("Redis 7.0", "module"): counts})
    write_page(page, table)
    assert table.splitlines()[-1] == "| GET | 120 / 120 |"
    assert page.read_text() == f"before\n{BEGIN}\n{table}\n{END}\nafter\n"


# ------------------------------------------------------------------------------------------ states


def has_effect(state, before, after):
    """Who listens gets batches, but for some where the machine is slow; of others some are lost."""
    dropped, lost, made = (
        after[f"spreds_{what}"] - before[f"spreds_{what}"]
        for what in ("dropped", "batches_dropped", "batches")
    )
    return dropped > 0 if state.consumer != "listening" else dropped == 0 or lost < made


@needs_servers
def test_servers_are_in_the_state_that_is_asked_for_and_not_afterwards():
    with (
        LoadProgram() as load,
        Consumer() as consumer,
        Servers(
            consumer,
            lambda server: load.run(server, Kind("get", 64), 0.02, 1),
            {0},
            random.Random(1),
        ) as servers,
    ):
        for state in dict.fromkeys(STATES):
            with servers.held_in(state) as server:
                client = server.client
                before = client.info("spreds")
                load.run(server, Kind("get", 64), 0.02, 1)  # more than fills a batch
                after = client.info("spreds")
                watched = any("O" in c["flags"] for c in client.client_list())
                assert watched == state.monitored, state
                assert bool(client.module_list()) == state.name.startswith("module")
                assert bool(after.get("spreds_on")) == (state.rate is not None), state
                if state.rate is not None:
                    assert after["spreds_threshold"] == round(state.rate * (1 << 24))
                    assert has_effect(state, before, after), (state, after)
            assert not server.client.info("spreds").get("spreds_on")
            assert not server.client.module_list()


# -------------------------------------------------------------------------------------------- load


@needs_servers
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_load_asks_for_keys_that_exist(kind):
    with LoadProgram() as load, LocalServer() as server:
        fill(server)
        before = server.client.dbsize()
        found = load.run(server, kind, 0.02, 1)
        stats = server.client.info("commandstats")[f"cmdstat_{kind.command}"]
        assert stats["calls"] % kind.pipeline == 0
        assert stats["calls"] > 0
        assert stats["failed_calls"] == 0
        assert server.client.dbsize() == before
        assert server.client.info("stats")["keyspace_misses"] == 0
        assert found.latency_seconds == sorted(found.latency_seconds)
        assert found.latency_seconds[0] > 0
        assert found.cpu_seconds > 0
        assert found.process_cpu_seconds > 0  # read at another moment than the other
        # Within the slice, and the time that its last requests take.
        assert found.throughput <= stats["calls"] / 0.02


@needs_servers
def test_the_load_refuses_a_reply_that_it_did_not_expect():
    with (
        LoadProgram() as load,
        LocalServer() as server,
        pytest.raises(subprocess.CalledProcessError),
    ):
        load.run(server, Kind("get", 1), 0.02, 1)


# -------------------------------------------------------------------------- medians and intervals


def naive_interval(values):
    """The narrowest pair of values, equally far from either end, that a median of 0 would lie
    between for 95 % of all ways to draw each value above or below it; else the range."""
    count, ordered = len(values), sorted(values)
    best = (ordered[0], ordered[-1])
    for cut in range(1, (count + 1) // 2 + 1):
        outside = sum(
            min(sum(signs), count - sum(signs)) < cut for signs in product((0, 1), repeat=count)
        )
        if outside / 2**count <= 0.05:
            best = (ordered[cut - 1], ordered[count - cut])
    return best


@pytest.mark.parametrize("count", range(1, 14))
def test_the_interval_is_the_one_found_by_enumeration(count):
    values = random.Random(count).sample(range(1000), count)
    assert median_interval(values) == naive_interval(values)


def test_an_interval_of_fewest_is_the_range_and_of_many_is_narrower():
    assert median_interval(range(FEWEST)) == (0, FEWEST - 1)
    low, high = median_interval(range(45))
    assert (low, high) == (15, 29)
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60), st.randoms())
def test_the_interval_holds_the_median_whatever_the_order(values, shuffler):
    low, high = median_interval(values)
    assert low <= statistics.median(values) <= high
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    assert median_interval(shuffled) == (low, high)


def test_the_interval_holds_the_true_median_as_often_as_it_says():
    drawn = random.Random(1)
    held = 0
    for _ in range(2000):
        low, high = median_interval([drawn.expovariate(1) for _ in range(45)])
        held += low <= math.log(2) <= high
    assert 0.94 < held / 2000 < 0.98


def test_a_ratio_is_of_what_was_measured_beside_it():
    found = median_ratio([2.0, 3.0, 8.0], [1.0, 3.0, 2.0])
    assert found.ratios == [2.0, 1.0, 4.0]
    assert found.median == 2.0
    with pytest.raises(ValueError, match="zip"):
        median_ratio([1.0], [1.0, 2.0])


AT_MOST, AT_LEAST = Target(1.01), Target(0.95, at_most=False)


@pytest.mark.parametrize(
    ("interval", "null", "target", "verdict"),
    [
        ((0.99, 1.01), (0.99, 1.01), AT_MOST, "met"),
        ((0.99, 1.02), (0.99, 1.01), AT_MOST, "not shown"),
        ((0.99, 1.00), (0.97, 1.02), AT_MOST, "not shown"),  # it could not have told
        ((1.02, 1.03), (0.99, 1.01), AT_MOST, "missed"),
        ((1.02, 1.03), (0.97, 1.02), AT_MOST, "not shown"),
        ((0.95, 1.10), (0.96, 1.05), AT_LEAST, "met"),
        ((0.94, 1.10), (0.96, 1.05), AT_LEAST, "not shown"),
        ((0.96, 1.10), (0.94, 1.05), AT_LEAST, "not shown"),
        ((0.90, 0.94), (0.96, 1.05), AT_LEAST, "missed"),
        ((0.90, 0.94), (0.92, 1.05), AT_LEAST, "not shown"),
    ],
)
def test_a_verdict_is_about_all_of_the_interval_and_of_the_null(interval, null, target, verdict):
    def with_ratios(count, interval):
        return MedianRatio([1.0] * count, 1.0, *interval)

    assert target.verdict(with_ratios(FEWEST, interval), with_ratios(FEWEST, null)) == verdict
    few = FEWEST - 1
    assert target.verdict(with_ratios(few, interval), with_ratios(few, null)) == "not shown"
