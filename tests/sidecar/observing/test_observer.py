"""What stands in an observation: whose latency, whose weight, and why a size must stay."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from sidecar.config.controller_config import ControllerConfig
from sidecar.config.node import (
    CycleConfig,
    MemoryConfig,
    ServerConfig,
    SettingsLimits,
    SidecarConfig,
)
from sidecar.config.sampling import SamplingConfig
from sidecar.curves.monitor import Estimate
from sidecar.observing.observer import observe, pending_request
from sidecar.observing.server_snapshot import ServerSnapshot, planned_bytes, resumed, that_fit
from sidecar.plans.plan_check import check_plan
from sidecar.servers.connection.unevictable import HEADROOM_RATIO
from sidecar.servers.sizes.reserved_memory import reserved_for_unseen
from sidecar.servers.sizes.transitions import ServerState
from sidecar.settings.team_settings import TeamSettings
from sidecar.state.room_made import RoomMade
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.observation import MAX_REASON, Observation, ServerObservation
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.planning.planner import make_plan
from tests.sidecar.monitored_load import STATS

MB = 1 << 20


ROOM = RoomMade(dict.fromkeys("abc", 20 * MB), dict.fromkeys("abc", 16 * MB), {"a": 30 * MB})


def _estimate(**values: Any) -> Estimate:
    curve = MissRatioCurve(np.array([float(MB), 8.0 * MB]), np.array([0.9, 0.1]))
    known: dict[str, Any] = {
        "pinned_bytes": 0,
        "curve": curve,
        "raw_curve": curve,
        "curve_error_ratio": 0.01,
        "sampled_objects": 5000,
        "mean_object_bytes": 800.0,
        "request_rate_per_second": 1000.0,
        "miss_ratio": 0.3,
        "window_seconds": 60.0,
        "chance_ratio": 0.0,
    }
    names = [field.name for field in dataclasses.fields(Estimate)]
    return Estimate(**(dict.fromkeys(names) | known | values))


def _config(*servers: ServerConfig) -> SidecarConfig:
    return SidecarConfig(
        node="n1",
        memory=MemoryConfig(64 * MB),
        sampling=SamplingConfig("ipc:///x"),
        cycle=CycleConfig(),
        controller=ControllerConfig(),
        planning=PlanningSettings(),
        limits=SettingsLimits(MB),
        servers=servers,
    )


def _seen(
    estimate: Estimate | None,
    settings: TeamSettings | None = None,
    sampler: bool = True,
    **values: Any,
) -> ServerSnapshot:
    reading = dataclasses.replace(
        STATS,
        maxmemory_bytes=16 * MB,
        config={"spreds-endpoint": "", "spreds-secret": ""} if sampler else {},
    )
    return ServerSnapshot(ServerConfig("a", "", **values), reading, estimate, settings, 9)


def _observe(*seen: ServerSnapshot, reserved_bytes: int = 0) -> Observation:
    observation = observe(
        _config(*(item.config for item in seen)), 7, 1000.0, list(seen), reserved_bytes
    )
    # What is sent is what the function reads.
    assert Observation.loads(observation.dumps(), "x").to_json() == observation.to_json()
    return observation


def _server(*arguments: Any, **values: Any) -> ServerObservation:
    return _observe(_seen(*arguments, **values)).servers[0]


TEAM = TeamSettings("ann", "2026-11-21", {"weight": 5.0, "backend_latency_seconds": 0.3})
NONE = TeamSettings("eve", "2026-11-21", {"weight": 5.0, "backend_latency_seconds": 0.0})


@pytest.mark.parametrize(
    ("team", "configured", "measured", "latency", "source"),
    [
        (TEAM, 0.2, 0.1, 0.3, "team"),
        (TEAM, None, None, 0.3, "team"),
        # Ten times what the operator says, or what is measured if that is more.
        (TEAM, None, 0.002, 0.02, "team"),
        (TEAM, 0.01, 0.002, 0.1, "team"),
        (TEAM, 0.01, 0.02, 0.2, "team"),
        (TEAM, 0.01, None, 0.1, "team"),
        (TEAM, 0.0, 0.0, 0.3, "team"),
        # A tenth of what the operator says, or of what is measured if he says nothing.
        (TEAM, 4.0, 0.2, 0.4, "team"),
        (TEAM, None, 4.0, 0.4, "team"),
        (TEAM, 2.0, 400.0, 0.3, "team"),
        (NONE, 0.2, 0.1, 0.02, "team"),
        (NONE, None, None, 0.0, "team"),
        (None, 0.2, 0.1, 0.2, "configured"),
        (None, None, 0.1, 0.1, "measured"),
        (TeamSettings("ann", "2026-11-21", {"weight": 5.0}), None, 0.1, 0.1, "measured"),
    ],
)
def test_the_teams_latency_goes_before_the_operators_before_the_measured(
    team: TeamSettings | None,
    configured: float | None,
    measured: float | None,
    latency: float,
    source: str,
) -> None:
    estimate = _estimate(measured_backend_latency_seconds=measured, fill_ratio=0.9)
    server = _server(estimate, team, backend_latency_seconds=configured)
    assert server.backend_latency_seconds == pytest.approx(latency)
    assert server.backend_latency_source == source
    # What was measured is shown in any case.
    assert server.measured_backend_latency_seconds == measured
    assert server.fill_ratio == 0.9
    assert server.keep_reason is None
    assert server.weight == (5.0 if team else 1.0)
    assert server.settings_version == (team.version if team else None)


def test_a_look_measures_no_latency_and_says_so() -> None:
    estimate = _estimate(measured_backend_latency_seconds=0.001, fill_ratio=0.9)
    seen = _seen(estimate, sampler=False)
    looked = dataclasses.replace(seen, reading=dataclasses.replace(seen.reading, is_looked_at=True))
    (server,) = _observe(looked).servers
    assert server.measured_backend_latency_seconds is None
    assert server.keep_reason == (
        "no_backend_latency: not configured, and a look from outside cannot measure it"
    )


def test_what_resident_memory_leaves_each_server_is_its_minimum() -> None:
    seen = dataclasses.replace(_seen(_estimate()), sheltered_bytes=7 * MB)
    assert _observe(seen).servers[0].minimum_bytes == 7 * MB
    most = dataclasses.replace(_seen(_estimate(), maximum_bytes=5 * MB), sheltered_bytes=7 * MB)
    assert _observe(most).servers[0].minimum_bytes == 5 * MB


@pytest.mark.parametrize(
    ("error", "enough", "minimum", "told"),
    [
        (0.5, 4 * MB, 10 * MB, 0.3),
        (0.5, None, 2 * MB, 0.5),
        (0.2, 4 * MB, 2 * MB, 0.2),  # its curve says it
        (0.5, 15 * MB, 15.5 * MB, 0.3),
        (0.5, 20 * MB, 16 * MB, 0.3),
    ],
)
def test_of_what_an_unknown_server_does_not_use_it_gives_the_half(
    error: float, enough: int | None, minimum: int, told: float
) -> None:
    server = _server(_estimate(curve_error_ratio=error, enough_bytes=enough))
    assert (server.minimum_bytes, server.curve_error_ratio) == (minimum, told)
    assert server.maxmemory_bytes == 16 * MB


def test_one_that_is_hardly_read_gives_the_half_too() -> None:
    """A cache with one read a second had 24 MiB for 3.5 in use, for as long as anybody looked."""
    few = "few_samples: only 26 reads sampled so far, of 100 that it takes"
    server = _server(_estimate(curve_error_ratio=0.1, enough_bytes=4 * MB, keep_reason=few))
    assert (server.minimum_bytes, server.keep_reason) == (10 * MB, None)
    filling = _server(_estimate(curve_error_ratio=0.1, keep_reason=few))
    assert filling.keep_reason == few


def test_who_is_resumed_while_servers_are_read_takes_part() -> None:
    """A plan had the size by hand for a cycle, and 'rollback' went back to it."""
    seen = dataclasses.replace(_seen(_estimate()), kept="held: somebody set it to 20 MiB by hand")
    name = seen.config.name
    targets = {name: 3 * MB}
    refuses = dataclasses.replace(seen, kept="refuses: 20 MiB")
    assert resumed([seen, refuses], {name: object()}, targets) == [seen, refuses]
    first, second = resumed([seen, refuses], {}, targets)
    assert (first.kept, first.reading.maxmemory_bytes) == (None, 3 * MB)
    assert second is refuses


def test_a_latency_that_chance_hides_is_said_to_be_hidden() -> None:
    server = _server(_estimate(chance_ratio=0.83), backend_latency_seconds=None)
    assert server.keep_reason == (
        "no_backend_latency: not configured, and cannot be measured: its keys are written whether "
        "they were missed or not, as perhaps after 83% of its misses"
    )
    assert _server(_estimate(chance_ratio=0.83), backend_latency_seconds=0.1).keep_reason is None


@pytest.mark.parametrize(
    ("estimate", "sampler", "latency", "code"),
    [
        (None, False, 0.1, "no_sampler"),
        (_estimate(keep_reason="few_samples: 0"), False, 0.1, "no_sampler"),
        (_estimate(request_rate_per_second=0.0, miss_ratio=None), False, 0.1, "no_sampler"),
        (None, True, 0.1, "no_samples"),
        (_estimate(), True, None, "no_backend_latency"),
        (_estimate(keep_reason="few_samples: two"), True, 0.1, "few_samples"),
    ],
)
def test_a_server_of_which_too_little_is_known_keeps_its_size(
    estimate: Estimate | None, sampler: bool, latency: float | None, code: str
) -> None:
    seen = _seen(estimate, sampler=sampler, backend_latency_seconds=latency)
    observation = _observe(seen)
    assert (observation.servers[0].keep_reason or "").split(":")[0] == code
    assert pending_request(observation).bounds_bytes == {"a": (16 * MB, 16 * MB)}


@pytest.mark.parametrize(
    ("seconds", "sampler", "code"),
    [
        (4.9, True, None),
        (5.1, True, "silent"),
        (5.1, False, "no_sampler"),
    ],
)
def test_a_server_whose_samples_have_stopped_is_not_taken_for_idle(
    seconds: float, sampler: bool, code: str | None
) -> None:
    seen = _seen(_estimate(), sampler=sampler, backend_latency_seconds=0.1)
    (server,) = _observe(dataclasses.replace(seen, silent_seconds=seconds)).servers
    assert (server.keep_reason or "").split(":")[0] == (code or "")


def test_the_bounds_asked_about_are_those_in_force() -> None:
    team = TeamSettings("ann", "2026-11-21", {"minimum_bytes": 3 * MB})
    seen = _seen(_estimate(), team, backend_latency_seconds=0.1, maximum_bytes=9 * MB)
    observation = _observe(seen, reserved_bytes=4 * MB)
    asked = pending_request(observation)
    assert asked.bounds_bytes == {"a": (3 * MB, 9 * MB)}
    assert asked.budget_bytes == observation.budget_bytes == 60 * MB


def test_who_hangs_counts_with_what_the_others_leave_of_its_plan_or_with_what_it_has() -> None:
    size = 16 * MB

    def bytes_of(has: float, planned: int, left: int) -> int:
        a = ServerState("a", size, 0, size)
        gone = ServerState("gone", has * MB, 0, planned * MB, reachable=False)
        return reserved_for_unseen([a, gone], {"a": size}, size + left * MB)

    assert bytes_of(4, 10, 20) == bytes_of(math.inf, 10, 20) == 10 * MB
    assert bytes_of(4, 10, 6) == 6 * MB
    assert bytes_of(4, 10, 2) == 4 * MB
    assert bytes_of(16, 10, 2) == 16 * MB


@pytest.mark.parametrize(("gone_has", "planned"), [(8, (40, 16)), (50, (6, 8))])
def test_what_one_that_hangs_still_has_is_nothing_that_others_count_with(
    gone_has: int, planned: tuple[int, int]
) -> None:
    """A client filled buffers and let them go, and then had the server hang: the others counted
    with what they were to get back, and a plan took one from 16 MiB to less than one."""
    states = [ServerState("gone", gone_has * MB, 0, 8 * MB, reachable=False)]
    seen, readings = [], {}
    for name, has, to_have in (("a", 6, 40), ("b", 8, 16)):
        one = dataclasses.replace(_seen(None), config=ServerConfig(name, ""))
        readings[name] = dataclasses.replace(one.reading, maxmemory_bytes=has * MB)
        reading = dataclasses.replace(one.reading, maxmemory_bytes=to_have * MB)
        seen.append(dataclasses.replace(one, reading=reading))
    fitting = that_fit(seen, readings, states, 64 * MB)
    assert planned_bytes(fitting) == dict(zip("ab", (size * MB for size in planned), strict=True))


def test_a_minimum_is_asked_for_as_far_as_kept_sizes_leave_room() -> None:
    fixed = _seen(_estimate(keep_reason="no_model: kept"), backend_latency_seconds=0.1)
    free = _seen(_estimate(), TeamSettings("ann", "2026-11-21", {"minimum_bytes": 60 * MB}))
    free = dataclasses.replace(
        free,
        config=dataclasses.replace(free.config, name="b", backend_latency_seconds=0.1),
    )
    observation = observe(_config(), 1, 1e6, [fixed, free], 0)
    assert pending_request(observation).bounds_bytes == {
        "a": (16 * MB, 16 * MB),
        "b": (48 * MB, None),
    }
    plan = make_plan(observation, now_seconds=1e6)
    assert plan.servers[1].maxmemory_bytes == 48 * MB
    state = SidecarState()
    state.ask(pending_request(observation))
    check_plan(plan, state, observation.node, now_seconds=1e6, maximum_age_seconds=60.0)


@pytest.mark.parametrize(
    ("reserved_bytes", "excess_bytes", "budget_bytes"),
    [
        (0, 10 * MB, 54 * MB),  # of what is free
        (0, 100 * MB, 16 * MB),  # and nobody who has memory gives it up
        (20 * MB, 10 * MB, 34 * MB),
        (63 * MB, 10 * MB, 1 * MB),  # the minimum of 2 MiB gives way
    ],
)
def test_what_is_held_above_a_limit_is_not_divided(
    reserved_bytes: int, excess_bytes: int, budget_bytes: int
) -> None:
    seen = _seen(_estimate(), backend_latency_seconds=0.1)
    observation = observe(_config(seen.config), 7, 1000.0, [seen], reserved_bytes, excess_bytes)
    assert observation.budget_bytes == budget_bytes


def test_minima_beside_a_server_that_is_down_do_not_take_what_it_holds() -> None:
    """Each was within its team's limits when it was set."""
    seen = [
        dataclasses.replace(
            _seen(_estimate(), backend_latency_seconds=0.1),
            config=ServerConfig(name, "", backend_latency_seconds=0.1, minimum_bytes=16 * MB),
        )
        for name in "acd"
    ]
    seen = [
        dataclasses.replace(
            item, reading=dataclasses.replace(item.reading, maxmemory_bytes=size * MB)
        )
        for item, size in zip(seen, (9, 8, 2), strict=True)
    ]
    observation = _observe(*seen, reserved_bytes=45 * MB)
    assert observation.budget_bytes == 19 * MB
    minima = [server.minimum_bytes for server in observation.servers]
    assert sum(minima) <= 19 * MB
    assert minima == [9 * MB, 8 * MB, 2 * MB]
    state = SidecarState()
    state.ask(pending_request(observation))
    plan = make_plan(observation, now_seconds=1000.0)
    check_plan(plan, state, "n1", now_seconds=1000.0, maximum_age_seconds=60.0)
    assert sum(server.maxmemory_bytes for server in plan.servers) <= 19 * MB


def test_a_server_that_cannot_be_given_another_size_is_kept_and_says_why() -> None:
    seen = dataclasses.replace(
        _seen(_estimate(keep_reason="few_samples: two")), kept="refuses: NOPERM"
    )
    assert _observe(seen).servers[0].keep_reason == "refuses: NOPERM"


def test_sizes_from_before_spreds_are_told_where_they_are_known() -> None:
    seen = _seen(_estimate())
    assert _observe(seen).servers[0].installed_bytes is None
    assert _observe(dataclasses.replace(seen, installed_bytes=0)).servers[0].installed_bytes == 0


@pytest.mark.parametrize(
    ("bounds", "keeps"),
    [({}, True), ({"minimum_bytes": 17 * MB}, False), ({"maximum_bytes": 15 * MB}, False)],
)
def test_one_that_waits_keeps_its_size_unless_that_breaks_a_bound(
    bounds: dict[str, int], keeps: bool
) -> None:
    seen = _seen(_estimate(), backend_latency_seconds=0.1, **bounds)
    (server,) = _observe(dataclasses.replace(seen, waits="waits: it failed")).servers
    assert server.keep_reason == ("waits: it failed" if keeps else None)


def baseline_with_buffers(size_bytes: int) -> dict[str, int]:
    """Return the baseline at the moment of the observation."""
    return {"baseline_bytes": STATS.baseline_bytes + size_bytes, "clients_bytes": size_bytes}


@pytest.mark.parametrize(
    ("size", "most", "lasting", "minimum"),
    [
        pytest.param(10, 4, 1, 4, id="what fits in its size, though it is seldom"),
        pytest.param(6, 40, 1, 6, id="no growth for what comes and goes"),
        pytest.param(6, 40, 20, 20, id="growth for what lasts"),
        pytest.param(6, 90, 90, 48, id="as far as others give it"),
    ],
)
def test_the_minimum_is_what_cannot_be_evicted(
    size: int, most: int, lasting: int, minimum: int
) -> None:
    seen = _seen(_estimate(), minimum_bytes=MB)
    seen = dataclasses.replace(
        seen,
        reading=dataclasses.replace(
            seen.reading, maxmemory_bytes=size * MB, **baseline_with_buffers(most * MB)
        ),
        unevictable_bytes=most * MB,
        lasting_bytes=lasting * MB,
    )
    other = dataclasses.replace(_seen(None), config=ServerConfig("b", ""))
    found = _observe(seen, other).servers[0].minimum_bytes
    assert minimum * MB <= found <= minimum * MB + HEADROOM_RATIO * minimum * MB


@pytest.mark.parametrize(
    ("lasting", "minimum", "others"),
    [
        pytest.param(20, 1, 16, id="beside a need each other keeps half of an equal share"),
        pytest.param(4, 1, 1, id="what fits into its size needs nothing"),
        pytest.param(9, 1, 16, id="also where it fits, if it is much"),
        pytest.param(20, 40, 1, id="what people want is theirs to say"),
    ],
)
def test_a_need_is_no_reason_to_empty_the_others(lasting: int, minimum: int, others: int) -> None:
    seen = _seen(None, minimum_bytes=minimum * MB)
    seen = dataclasses.replace(
        seen,
        reading=dataclasses.replace(
            seen.reading, maxmemory_bytes=10 * MB, clients_bytes=lasting * MB
        ),
        unevictable_bytes=lasting * MB,
        lasting_bytes=lasting * MB,
    )
    other = _seen(None, minimum_bytes=MB)
    reading = dataclasses.replace(other.reading, maxmemory_bytes=30 * MB)
    other = dataclasses.replace(
        other, config=dataclasses.replace(other.config, name="b"), reading=reading
    )
    # Two servers share 64 MiB.
    assert _observe(seen, other).servers[1].minimum_bytes == others * MB


@pytest.mark.parametrize(
    ("kind", "size", "others"),
    [
        pytest.param({"role": "slave"}, 40, 16, id="a replica"),
        pytest.param({}, 40, 16, id="one that was a replica until just now"),
        pytest.param({"role": "slave"}, 20, 1, id="a replica of a common size"),
        pytest.param(
            {"maxmemory_policy": "noeviction"}, 40, 16, id="one that evicts nothing, above its plan"
        ),
    ],
)
def test_what_stays_in_one_is_no_reason_to_empty_the_others(
    kind: dict[str, Any], size: int, others: int
) -> None:
    seen = _seen(None)
    reading = dataclasses.replace(
        seen.reading, maxmemory_bytes=10 * MB, counted_bytes=size * MB, **kind
    )
    held = 0 if "role" in kind or not kind else size * MB
    seen = dataclasses.replace(seen, reading=reading, unevictable_bytes=held, was_replica=not kind)
    other = _seen(None, minimum_bytes=MB)
    other = dataclasses.replace(
        other,
        config=dataclasses.replace(other.config, name="b"),
        reading=dataclasses.replace(other.reading, maxmemory_bytes=30 * MB),
    )
    # Two servers share 64 MiB.
    assert _observe(seen, other).servers[1].minimum_bytes == others * MB


@pytest.mark.parametrize(
    ("wish", "configured", "measured", "others"),
    [
        pytest.param({"weight": 10.0}, {}, None, 16, id="a great weight"),
        pytest.param({"weight": 2.0}, {}, None, 16, id="a small one"),
        pytest.param({"weight": 5.0}, {"weight": 5.0}, None, 2, id="that the operator agrees to"),
        pytest.param({"weight": 1.0}, {"weight": 0.0}, None, 16, id="that he does not"),
        pytest.param({"backend_latency_seconds": 60.0}, {}, 0.02, 16, id="a great latency"),
        pytest.param({"backend_latency_seconds": 0.02}, {}, 0.02, 2, id="the measured one"),
        pytest.param({"backend_latency_seconds": 0.04}, {}, None, 16, id="nothing is known of"),
        pytest.param(
            {"backend_latency_seconds": 0.04, "weight": 1.5}, {}, 0.02, 16, id="both together"
        ),
        pytest.param(
            {"backend_latency_seconds": 0.04},
            {"backend_latency_seconds": 0.04},
            0.001,
            2,
            id="a latency that the operator says too",
        ),
        pytest.param({"miss_bound_per_second": 5.0}, {}, None, 16, id="a bound"),
        pytest.param({"latency_bound_seconds": 0.02}, {}, None, 16, id="another bound"),
        pytest.param(
            {"miss_bound_per_second": 5.0},
            {"bounds": {"miss_bound_per_second": 4.0}},
            None,
            2,
            id="a bound that the operator has lower",
        ),
    ],
)
def test_no_teams_wish_empties_another_server(
    wish: dict[str, float], configured: dict[str, Any], measured: float | None, others: int
) -> None:
    """A weight of 100 and a latency of 60 s, where .17 ms were measured, took a neighbour from 14
    to 2 MiB in one cycle; a bound that was lowered in each cycle, from 11 to 3 MiB."""
    falls = MissRatioCurve(np.array([0.0, 64.0 * MB]), np.array([1.0, 0.1]))
    estimate = _estimate(measured_backend_latency_seconds=measured, curve=falls)
    seen = _seen(
        estimate, TeamSettings("eve", "2026-11-21", wish), minimum_bytes=2 * MB, **configured
    )
    other = _seen(_estimate(curve=falls), minimum_bytes=2 * MB)
    other = dataclasses.replace(
        other,
        config=dataclasses.replace(other.config, name="b"),
        reading=dataclasses.replace(other.reading, maxmemory_bytes=30 * MB),
    )
    # Two servers share 64 MiB.
    first, second = _observe(seen, other).servers
    assert (first.minimum_bytes, second.minimum_bytes) == (2 * MB, others * MB)
    # Who wishes much as well is kept from the other's wish all the same.
    both = dataclasses.replace(other, settings=TeamSettings("ann", "2026-11-21", {"weight": 9.0}))
    least = [one.minimum_bytes for one in _observe(seen, both).servers]
    assert least == [16 * MB, others * MB]


def test_beside_a_wish_nobody_keeps_memory_that_brings_no_hits() -> None:
    """One that used 4 of 16 MiB kept them all, and nothing said why."""
    level = MissRatioCurve(np.array([0.0, 5.0 * MB, 64.0 * MB]), np.array([1.0, 0.1, 0.0999]))
    wish = TeamSettings("eve", "2026-11-21", {"weight": 10.0})
    seen = _seen(_estimate(curve=level), wish, minimum_bytes=2 * MB)
    other = _seen(_estimate(curve=level), minimum_bytes=2 * MB)
    other = dataclasses.replace(
        other,
        config=dataclasses.replace(other.config, name="b"),
        reading=dataclasses.replace(other.reading, maxmemory_bytes=30 * MB),
    )
    assert _observe(seen, other).servers[1].minimum_bytes == 5 * MB


def test_one_that_was_a_replica_and_is_emptied_empties_nobody() -> None:
    """It kept 40 of 64 MiB, as nothing was known of its curve, and the others divided the rest."""
    seen = dataclasses.replace(_seen(None), was_replica=True)
    reading = dataclasses.replace(seen.reading, maxmemory_bytes=40 * MB, counted_bytes=4 * MB)
    seen = dataclasses.replace(seen, reading=reading)
    other = _seen(None, minimum_bytes=MB)
    other = dataclasses.replace(
        other,
        config=dataclasses.replace(other.config, name="b"),
        reading=dataclasses.replace(other.reading, maxmemory_bytes=24 * MB),
    )
    assert _observe(seen, other).servers[1].minimum_bytes == 16 * MB


def test_two_needs_that_do_not_fit_together_empty_nobody_either() -> None:
    """By idle connections of a stranger to two servers a third one lost all but its minimum."""
    config = _config(*(ServerConfig(name, "", minimum_bytes=MB) for name in "abc"))
    seen = []
    for place, (has, needs) in enumerate(((20, 40), (20, 28), (24, 1))):
        one = dataclasses.replace(_seen(None), config=config.servers[place])
        reading = dataclasses.replace(one.reading, maxmemory_bytes=has * MB)
        held = {"unevictable_bytes": needs * MB, "lasting_bytes": needs * MB}
        seen.append(dataclasses.replace(one, reading=reading, **held))
    first, second, other = observe(config, 1, 0.0, seen, 0, 0, 64 * MB).servers
    assert other.minimum_bytes == 64 * MB // 6  # half of an equal share
    least = [one.minimum_bytes for one in (first, second, other)]
    assert 64 * MB - 2 <= sum(least) <= 64 * MB
    # Each need gets a part of what it lacks.
    assert min(first.minimum_bytes, second.minimum_bytes) > 20 * MB
    # What people want goes before needs.
    wants = dataclasses.replace(config.servers[2], minimum_bytes=60 * MB)
    seen[2] = dataclasses.replace(seen[2], config=wants)
    observation = observe(config, 1, 0.0, seen, 0, 0, 64 * MB)
    assert observation.servers[2].minimum_bytes > 55 * MB


def test_beside_one_that_cannot_be_read_each_other_keeps_half_of_an_equal_share() -> None:
    """Its silence may be any client's doing. What was squeezed for it was emptied by a plan."""
    config = _config(*(ServerConfig(name, "", minimum_bytes=2 * MB) for name in "abc"))
    seen = [
        dataclasses.replace(_seen(_estimate()), config=config.servers[place]) for place in (1, 2)
    ]
    for is_beside, least in ((False, 2 * MB), (True, 64 * MB // 6)):
        observation = observe(config, 1, 0.0, seen, 32 * MB, 0, 64 * MB, is_beside_unread=is_beside)
        assert {one.minimum_bytes for one in observation.servers} == {least}


def test_a_servers_own_words_are_bounded_where_they_become_a_reason() -> None:
    seen = dataclasses.replace(_seen(_estimate()), kept="refuses: " + "x" * 5000)
    reason = _observe(seen).servers[0].keep_reason
    assert reason is not None
    assert len(reason) == MAX_REASON
