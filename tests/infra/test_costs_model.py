"""The bills: a worked example by hand, and what must hold of every bill."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.costs.model import ControllerCost, break_even, cheapest, compare, first_crossing
from infra.costs.terms import Term
from infra.costs.workload import (
    CONTROLLERS,
    DELIVERIES,
    POLLINGS,
    Workload,
    cold_ratio,
    latency_seconds,
    machines,
    yearly_cold_starts,
)
from tests.infra.costs_examples import MEASURED, PRICES

IN_CLOUD = ("lambda", "fargate", "service", "instance")

workloads = st.builds(
    Workload,
    cycles_per_day=st.integers(1, 10_000),
    servers=st.integers(1, 200),
    nodes=st.integers(1, 50),
    nodes_per_cell=st.integers(1, 50),
    delivery=st.sampled_from(DELIVERIES),
    polling=st.sampled_from(POLLINGS),
    retention_days=st.integers(1, 400),
    log_retention_days=st.integers(1, 400),
    alarms=st.integers(0, 30),
    memory_mb=st.integers(128, 10_240),
    duration_seconds=st.none() | st.floats(0.001, 60),
)


def bill(workload: Workload, controller: str) -> ControllerCost:
    return compare(workload, MEASURED, PRICES, controllers=(controller,))[0]


def terms(workload: Workload, controller: str) -> dict[str, float]:
    return {term.name: term.usd(False) for term in bill(workload, controller).terms}


def test_lambda_by_hand() -> None:
    # 24 cycles a day are 8,760 a year. 1,769 MB are one whole processor.
    found = bill(Workload(cycles_per_day=24, servers=3, memory_mb=1769), "lambda")
    expected = {
        "Lambda requests": 8760 * 0.20e-6,
        # 0.04 s run + 0.06 s for S3 + 0.3 s of initialisation in e^(-1/12) of the runs.
        "Lambda GB-s": 8760 * (0.1 + 0.3 * math.exp(-1 / 12)) * 1769 / 1024 * 0.00001,
        "S3 PUT": 8760 * 2 * 5e-6,
        # Once a day, at the price of a PUT.
        "S3 LIST": 365 * 5e-6,
        # Observation, plan and the marker of settings.
        "S3 GET": 8760 * 3 * 0.4e-6,
        # 15,400 bytes of observation and 1,500 of plan, 24 a day, 12 months; 180 days, and two
        # until they are erased.
        "S3 storage": 16_900 * 24 * 182 / 2**30 * 12 * 0.02,
        "SNS publishes": 8760 * 0.5e-6,
        "SNS filtering": 8760 * 1024 / 2**30 * 0.10,
        # SNS sends, the node receives once and deletes.
        "SQS requests": 8760 * 3 * 0.4e-6,
        "CloudWatch alarms": 2 * 12 * 0.10,
        # 500 bytes of ours and 600 of the platform's.
        "logs ingested": 8760 * 1100 / 2**30 * 0.50,
        "logs kept": 24 * 180 * 1100 / 2**30 * 12 * 0.03,
    }
    assert {t.name: t.usd(False) for t in found.terms} == pytest.approx(expected)
    # On paper: .001752 .056903 .0876 .001825 .010512 .0165 .00438 .000835 .010512 .004487 .001593
    assert found.nodes_usd(free_tier=False) == pytest.approx(0.196899, abs=2e-6)
    assert found.shared_usd(free_tier=False) == pytest.approx(2.40)
    # The free tier covers all but S3, filtering and kept logs.
    assert found.usd(free_tier=True) == pytest.approx(0.118865, abs=2e-6)


def test_fargate_by_hand() -> None:
    found = terms(Workload(cycles_per_day=24, servers=3), "fargate")
    # 30 s to start, 0.34 s of work at a quarter of a processor: the least of 60 s is billed.
    assert found["Fargate vCPU"] == pytest.approx(8760 / 60 * 0.25 * 0.03)
    assert found["Fargate GB"] == pytest.approx(8760 / 60 * 0.5 * 0.004)
    assert found["task's address"] == pytest.approx(8760 / 60 * 0.005)
    assert found["EventBridge events"] == pytest.approx(8760 * 1e-6)
    assert found["image storage"] == pytest.approx(0.1 * 12 * 0.10)
    # The plan comes after 1.7 + 30 + 4 * 0.34 + 0.06 s: two long polls, one send, one delete.
    assert found["SQS requests"] == pytest.approx(8760 * 4 * 0.4e-6)


def test_instance_by_hand() -> None:
    found = terms(Workload(cycles_per_day=24, servers=3), "instance")
    assert found["instance hours"] == pytest.approx(8760 * 0.01)
    assert found["instance disk"] == pytest.approx(8 * 12 * 0.08)
    assert found["its address"] == pytest.approx(8760 * 0.005)
    # The node's three, the machine's three, and its polls each 20 s.
    assert found["SQS requests"] == pytest.approx((8760 * 6 + 365 * 4320) * 0.4e-6)


def test_a_long_poll_that_never_stops_is_above_the_target_by_itself() -> None:
    always = terms(Workload(polling="always"), "lambda")["SQS requests"]
    assert always == pytest.approx((365 * 4320 + 8760 * 3) * 0.4e-6)
    assert always > 0.5 > terms(Workload(polling="waiting"), "lambda")["SQS requests"]


def test_http_by_hand() -> None:
    """No service is called, so cycles cost nothing; and plans to nodes elsewhere leave AWS."""
    machine = 8760 * 0.01 + 8 * 12 * 0.08 + 8760 * 0.005
    for cycles in (24, 1440):
        assert bill(Workload(cycles_per_day=cycles), "http").usd(False) == pytest.approx(machine)
    found = terms(Workload(place="elsewhere"), "http")
    assert found["data to nodes"] == pytest.approx(8760 * 1500 / 2**30 * 0.09)


def test_what_comes_to_nodes_outside_of_aws() -> None:
    """The plan, the notice and what is around them."""
    found = terms(Workload(place="elsewhere"), "lambda")
    assert found["data to nodes"] == pytest.approx(8760 * (1500 + 1024 + 4096) / 2**30 * 0.09)
    assert "data to nodes" not in terms(Workload(), "lambda")


def test_embedded_costs_nothing_and_is_as_fast_as_the_planner() -> None:
    found = bill(Workload(), "embedded")
    assert (found.terms, found.usd(False), found.latency_seconds) == ((), 0, 0.04)


def test_a_topic_for_observations_is_another_publish() -> None:
    """Its delivery to the function is free."""
    one, two = (bill(Workload(topics=topics), "lambda").usd(False) for topics in ("one", "two"))
    assert two - one == pytest.approx(8760 * 0.5e-6)


def test_http_delivery_is_billed_instead_of_the_queue() -> None:
    found = terms(Workload(delivery="http"), "lambda")
    assert "SQS requests" not in found
    assert found["SNS HTTP deliveries"] == pytest.approx(8760 * 0.6e-6)


def test_a_given_duration_and_given_sizes_replace_the_measured_ones() -> None:
    given_all = Workload(
        duration_seconds=2.0, memory_mb=1024, observation_bytes=2**20, plan_bytes=2**20
    )
    found = terms(given_all, "lambda")
    assert found["Lambda GB-s"] == pytest.approx(8760 * 2 * 0.00001)
    assert found["S3 storage"] == pytest.approx(2 / 1024 * 24 * 182 * 12 * 0.02)


def test_less_memory_is_slower_and_costs_the_same_for_the_processor() -> None:
    small, whole = Workload(memory_mb=512), Workload(memory_mb=1769)
    slower = latency_seconds("lambda", small, MEASURED) - latency_seconds("lambda", whole, MEASURED)
    assert slower == pytest.approx(0.34 * (1769 / 512 - 1))
    waiting = 8760 * 0.06 * 0.00001 / 1024
    assert terms(small, "lambda")["Lambda GB-s"] - waiting * 512 == pytest.approx(
        terms(whole, "lambda")["Lambda GB-s"] - waiting * 1769
    )


def test_nodes_of_a_cell_keep_their_function_warm_together() -> None:
    # 300 s are a twelfth of an hour.
    assert cold_ratio(24, 1) == pytest.approx(math.exp(-1 / 12))
    assert cold_ratio(24, 40) == pytest.approx(math.exp(-40 / 12))
    assert cold_ratio(1440, 1) == pytest.approx(math.exp(-5))
    # Two cells of 40 and one of 20.
    nodes = Workload(nodes=100, nodes_per_cell=40)
    assert nodes.cells == ((2, 40), (1, 20))
    cold = 80 * math.exp(-40 / 12) + 20 * math.exp(-20 / 12)
    assert yearly_cold_starts(nodes) == pytest.approx(8760 * cold)


def test_the_share_of_cold_runs_is_that_of_a_simulation() -> None:
    """Nodes with a cycle an hour, begun at any time; to three points, because they are no Poisson
    process: no node runs twice in an hour."""
    chance = random.Random(1)
    for nodes in (10, 40):
        cold = runs = 0
        for _ in range(2000):
            times = sorted(chance.uniform(0, 3600) for _ in range(nodes))
            before = [times[-1] - 3600, *times]
            cold += sum(at - last > 300 for last, at in itertools.pairwise(before))
            runs += nodes
        assert cold / runs == pytest.approx(cold_ratio(24, nodes), abs=0.03)


def test_only_the_cells_own_subscriptions_look_at_a_notice() -> None:
    """Twice the cells is twice the cost, whereas one large cell filters with the square."""

    def filtering(nodes: int, nodes_per_cell: int) -> float:
        workload = Workload(nodes=nodes, nodes_per_cell=nodes_per_cell)
        return terms(workload, "lambda")["SNS filtering"]

    one = 8760 * 1024 / 2**30 * 0.10
    assert filtering(40, 40) == pytest.approx(40**2 * one)
    assert filtering(1000, 40) == pytest.approx(25 * 40**2 * one)
    assert filtering(1010, 40) == pytest.approx((25 * 40**2 + 10**2) * one)
    assert filtering(1000, 1000) == pytest.approx(1000**2 * one)


@given(workloads, st.sampled_from(IN_CLOUD), st.integers(1, 30))
def test_full_cells_cost_in_a_straight_line(
    workload: Workload, controller: str, cells: int
) -> None:
    def sums(cells: int) -> tuple[float, float]:
        nodes = cells * workload.nodes_per_cell
        found = compare(
            dataclasses.replace(workload, nodes=nodes), MEASURED, PRICES, {controller: 5.0}
        )[CONTROLLERS.index(controller)]
        polls = 365 * 4320 * 0.4e-6 if controller in ("service", "instance") else 0.0
        return found.nodes_usd(False) - polls, found.shared_usd(False)

    assert sums(cells)[0] == pytest.approx(cells * sums(1)[0])
    # Alarms and, while one machine has the time, that.
    many = dataclasses.replace(workload, nodes=cells * workload.nodes_per_cell)
    if machines(controller, many, MEASURED) <= 1:
        assert sums(cells)[1] == sums(1)[1]


def test_more_work_than_a_machine_has_time_for_takes_more_machines() -> None:
    """By hand: .04 s a plan, 3 million plans a day, of which a t4g.micro does .2 s each second."""
    workload = Workload(cycles_per_day=10_000, nodes=300)
    found = bill(workload, "instance")
    assert found.machines == math.ceil(3e6 * 0.04 / 86_400 / 0.2) == 7
    assert terms(workload, "instance")["instance hours"] == pytest.approx(7 * 8760 * 0.01)
    assert bill(workload, "service").machines == 6
    smaller = replace(workload, instance_type="t3a.nano")
    assert machines("instance", smaller, MEASURED) == math.ceil(3e6 * 0.04 / 86_400 / 0.1) == 14


def test_service_by_hand() -> None:
    found = terms(Workload(cycles_per_day=24, servers=3), "service")
    assert found["service vCPU"] == pytest.approx(8760 * 0.25 * 0.03)
    assert found["service GB"] == pytest.approx(8760 * 0.5 * 0.004)
    assert found["its address"] == pytest.approx(8760 * 0.005)
    assert found["SQS requests"] == pytest.approx((8760 * 6 + 365 * 4320) * 0.4e-6)


@pytest.mark.parametrize("against", ["service", "http"])
@pytest.mark.parametrize("by", ["cycles_per_day", "nodes"])
def test_break_even_is_found_where_machines_come_one_by_one(against: str, by: str) -> None:
    """Each is a step down of the difference, after which the lines may cross again."""
    workload = Workload(nodes=400, cycles_per_day=400, servers=10, duration_seconds=0.6)
    difference = []
    for count in range(1, 3001):
        changed: dict[str, Any] = {by: count}
        at = dataclasses.replace(workload, **changed)
        one, other = compare(at, MEASURED, PRICES, controllers=("lambda", against))
        difference.append(one.usd(False) - other.usd(False))
    assert machines(against, at, MEASURED) > 1
    found = break_even(workload, MEASURED, PRICES, against=against, by=by, limit=3000)
    assert found == scanned(difference)


@given(workloads, st.sampled_from(CONTROLLERS), st.integers(1, 5000))
def test_never_falls_with_cycles(workload: Workload, controller: str, more: int) -> None:
    busier = dataclasses.replace(workload, cycles_per_day=workload.cycles_per_day + more)
    # One of the assumptions is not monotone in itself: a function called often is warm, answers
    # sooner and may save a poll. Hold the latency, as an operator who measured it would.
    latency = {controller: bill(workload, controller).latency_seconds}
    for free_tier in (False, True):
        low, high = (
            compare(w, MEASURED, PRICES, latency, (controller,))[0].usd(free_tier)
            for w in (workload, busier)
        )
        assert high >= low * (1 - 1e-12)


@given(workloads)
def test_the_free_tier_never_raises_a_bill(workload: Workload) -> None:
    for found in compare(workload, MEASURED, PRICES):
        assert found.usd(free_tier=True) <= found.usd(free_tier=False)
        for term in found.terms:
            assert 0 <= term.usd(free_tier=True) <= term.usd(free_tier=False)


@given(workloads, st.booleans())
def test_a_total_is_the_sum_of_its_terms(workload: Workload, free_tier: bool) -> None:
    for found in compare(workload, MEASURED, PRICES):
        total = 0.0
        for term in found.terms:
            free = term.free_quantity if free_tier else 0
            total += max(0, term.quantity - free) * term.usd_per_unit
        assert found.usd(free_tier) == pytest.approx(total)
        assert found.nodes_usd(free_tier) + found.shared_usd(free_tier) == pytest.approx(total)
        assert len({term.name for term in found.terms}) == len(found.terms)


@given(workloads)
def test_polling_while_waiting_never_costs_more_than_polling_always(workload: Workload) -> None:
    waiting, always = (
        bill(dataclasses.replace(workload, polling=polling), "lambda").usd(False)
        for polling in ("waiting", "always")
    )
    assert waiting <= always * (1 + 1e-12)


def scanned(difference: list[float]) -> int | None:
    """The slow twin of ``first_crossing``: looks at each."""
    return next((n for n, value in enumerate(difference, 1) if value >= 0), None)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=300), st.integers(0, 40))
@example(steps=[1] * 20, below=6)
@example(steps=[1] * 20, below=21)
@example(steps=[0], below=0)
def test_first_crossing_is_what_a_scan_finds(steps: list[int], below: int) -> None:
    # Whole numbers, so that a difference of exactly 0 occurs.
    difference = [float(height - below) for height in itertools.accumulate(steps)]
    found = first_crossing(lambda n: difference[n - 1], len(difference))
    assert found == scanned(difference)


@pytest.mark.parametrize("free_tier", [False, True])
@pytest.mark.parametrize("duration", [0.05, 2.0, 60.0])
@pytest.mark.parametrize("polling", POLLINGS)
def test_break_even_is_what_a_scan_finds(free_tier: bool, duration: float, polling: str) -> None:
    workload = Workload(memory_mb=1024, duration_seconds=duration, polling=polling)
    limit = 3000
    difference = []
    for cycles in range(1, limit + 1):
        at = dataclasses.replace(workload, cycles_per_day=cycles)
        one, other = compare(at, MEASURED, PRICES, controllers=("lambda", "instance"))
        difference.append(one.usd(free_tier) - other.usd(free_tier))
    found = break_even(workload, MEASURED, PRICES, free_tier=free_tier, limit=limit)
    assert found == scanned(difference)
    assert (found is None) == (duration < 60)


def test_recommends_the_cheapest_that_is_fast_enough() -> None:
    def costing(controller: str, usd: float, latency: float) -> ControllerCost:
        return ControllerCost(controller, (Term("all", 1, "year", usd, free_quantity=1),), latency)

    slow, middle, fast = (
        costing("fargate", 1, 30),
        costing("lambda", 2, 3),
        costing("instance", 90, 1),
    )
    bills = [slow, fast, middle]
    assert cheapest(bills, 60, free_tier=False) is slow
    assert cheapest(bills, 3, free_tier=False) is middle
    assert cheapest(bills, 1, free_tier=False) is fast
    assert cheapest(bills, 0.5, free_tier=False) is None
    # All free: the fastest.
    assert cheapest(bills, 60, free_tier=True) is fast


def test_a_known_latency_replaces_the_models() -> None:
    found = compare(Workload(), MEASURED, PRICES, {"lambda": 0.4}, ("lambda",))[0]
    assert found.latency_seconds == 0.4
