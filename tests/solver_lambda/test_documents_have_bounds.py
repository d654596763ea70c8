"""Whatever a document says, it is read or refused in one short sentence; what is read can be
planned for, and the plan can be read."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.config.settings_limits import SettingsLimits
from sidecar.delivery.notification import NotificationRefusedError, _read
from sidecar.settings.team_settings import TeamSettings
from sidecar.state.sidecar_state import (
    ASKED_LIMIT,
    ObservedLatency,
    PendingRequest,
    SavedSettings,
    SidecarState,
)
from solver_lambda.documents.curve import MAX_POINTS, MissRatioCurve
from solver_lambda.documents.json_text import MAX_NODES, parse_json
from solver_lambda.documents.keys import MOST_CYCLE
from solver_lambda.documents.observation import MAX_REASON, Observation, ServerObservation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.planning_settings import MOST_TIME_SECONDS, PlanningSettings
from solver_lambda.documents.reader import (
    LEAST_NUMBER,
    MAX_SERVERS,
    MOST_BYTES,
    MOST_INTEGER,
    MOST_NUMBER,
    DocumentError,
    Fields,
    shown,
)
from solver_lambda.documents.server_settings import BOUNDS
from solver_lambda.function.answering import RefusedError
from solver_lambda.function.handler import handler
from solver_lambda.planning.planner import make_plan
from tests.examples import examples

LONGEST_MESSAGE = 1000

numbers = st.just(0.0) | st.floats(LEAST_NUMBER, MOST_NUMBER)
positive = st.sampled_from([LEAST_NUMBER, 1.0, MOST_NUMBER]) | st.floats(LEAST_NUMBER, MOST_NUMBER)
# Of the bounds and of everything between, evenly by magnitude.
sizes = st.integers(0, 61).flatmap(lambda bits: st.integers(0, 1 << bits))


@st.composite
def extreme_servers(draw: st.DrawFn, name: str, most_bytes: int) -> ServerObservation:
    minimum = min(draw(sizes), most_bytes)
    points = draw(st.lists(st.floats(0, float(MOST_BYTES)), min_size=1, max_size=5, unique=True))
    points = [point if point >= LEAST_NUMBER else 0.0 for point in points]
    points = sorted(set(points))
    ratios = draw(st.lists(st.floats(0, 1), min_size=len(points), max_size=len(points)))
    return ServerObservation(
        name=name,
        maxmemory_bytes=draw(sizes | st.just(MOST_INTEGER)),
        minimum_bytes=minimum,
        maximum_bytes=draw(st.none() | st.integers(max(1, minimum), MOST_BYTES)),
        weight=draw(numbers),
        request_rate_per_second=draw(numbers),
        cache_latency_seconds=draw(numbers),
        backend_latency_seconds=draw(numbers),
        curve=MissRatioCurve(np.array(points), -np.sort(-np.array(ratios))),
        bounds=draw(st.fixed_dictionaries({}, optional=dict.fromkeys(BOUNDS, positive))),
        curve_error_ratio=draw(st.sampled_from([0.0, 1.0])),
        mean_object_bytes=draw(st.none() | positive),
        changed_at_seconds=draw(st.none() | numbers),
    )


@st.composite
def extreme_observations(draw: st.DrawFn) -> Observation:
    """Anything that the documents allow."""
    count = draw(st.integers(1, 4))
    budget = draw(st.integers(1, MOST_BYTES) | st.sampled_from([1, 1 << 30, MOST_BYTES]))
    return Observation(
        node="n1",
        cycle=draw(st.sampled_from([0, MOST_CYCLE])),
        made_at_seconds=draw(numbers),
        window_seconds=draw(positive),
        budget_bytes=budget,
        unit_bytes=draw(st.sampled_from([1, 65536, MOST_BYTES])),
        servers=tuple(draw(extreme_servers(f"s{n}", budget // count)) for n in range(count)),
        planning=PlanningSettings(
            horizon_seconds=draw(positive),
            dwell_seconds=draw(numbers),
            maximum_step_ratio=draw(st.none() | positive),
        ),
    )


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow])
@given(observation=extreme_observations())
def test_what_may_be_written_is_read_and_planned_for(observation):
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        read = Observation.loads(observation.dumps(), "o.json")
        plan = make_plan(read, now_seconds=1.0)
    written = AdaptationPlan.loads(plan.dumps(), "p.json")
    assert [s.maxmemory_bytes for s in written.servers] == [s.maxmemory_bytes for s in plan.servers]
    assert plan.decision == "keep" or (
        sum(s.maxmemory_bytes for s in plan.servers) <= observation.budget_bytes
    )


def test_the_plan_of_the_largest_observation_is_read():
    curve = MissRatioCurve(np.array([0.0, 1e6]), np.array([1.0, 0.0]))
    servers = tuple(
        ServerObservation(
            name=f"{number:063}",
            maxmemory_bytes=100_000,
            minimum_bytes=1,
            weight=1.0,
            request_rate_per_second=1000 / 3 if number % 2 else 0.0,
            cache_latency_seconds=1e-3 / 3,
            backend_latency_seconds=1 / 3,
            curve=curve,
            bounds=dict.fromkeys(BOUNDS, 1e-5),
            measured_backend_latency_seconds=1 / 7,
            fill_ratio=1 / 3,
            keep_reason="\U0001f600" * MAX_REASON if number % 3 == 0 else None,
            settings_version="v" * 128,
        )
        for number in range(MAX_SERVERS)
    )
    # Time for a whole search on a machine that does other things beside it: it ends far sooner.
    planning = PlanningSettings(time_limit_seconds=MOST_TIME_SECONDS)
    observation = Observation("n1", 1, 1.0, 60.0, 110_000 * MAX_SERVERS, servers, planning=planning)
    read = Observation.loads(observation.dumps(), "o.json")
    plan = make_plan(read, now_seconds=1.0)
    assert plan.decision == "apply"
    assert AdaptationPlan.loads(plan.dumps(), "p.json").reason == plan.reason


@given(value=st.recursive(st.integers() | st.text(), st.lists, max_leaves=30))
def test_a_value_in_a_message_is_short(value):
    assert len(shown(value)) <= 100


@pytest.mark.parametrize("key", ["a\nb", "\x1b[2J", "\ud800", "\u2028", "k\n" * 200])
def test_a_key_writes_no_line_of_its_own_into_a_log(key):
    with pytest.raises(DocumentError, match="is not a known key") as refused:
        Fields({key: 1}, "settings", "").done()
    assert str(refused.value).isprintable()
    with pytest.raises(DocumentError) as refused:
        Fields({key: {"a": "no number"}}, "state", "").table(key).integer("a")
    assert str(refused.value).isprintable()


def test_a_value_is_cut_without_being_written_out():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep).startswith("[[")
    assert shown(1 << 100_000) == "a whole number of 100001 bits"
    assert len(shown("x" * 10**6)) <= 100
    assert shown("poison") == "'poison'"


def test_repeated_names_are_found_in_one_pass():
    names = [f"s{number}" for number in range(40_000)]
    fields = Fields({}, "o")
    fields.check_distinct("servers", names)
    with pytest.raises(DocumentError, match=r"^o: servers has two servers named 's7'$"):
        fields.check_distinct("servers", [*names, "s7"])


def observation_document() -> dict[str, Any]:
    curve = MissRatioCurve(np.array([0.0, 1e6, 2e6]), np.array([1.0, 0.5, 0.0]))
    server = ServerObservation(
        name="a",
        maxmemory_bytes=1_000_000,
        minimum_bytes=1,
        weight=1.0,
        request_rate_per_second=100.0,
        cache_latency_seconds=1e-4,
        backend_latency_seconds=0.1,
        curve=curve,
        maximum_bytes=3_000_000,
        bounds={"latency_bound_seconds": 0.05, "miss_bound_per_second": 5.0},
        mean_object_bytes=100.0,
        changed_at_seconds=5.0,
    )
    other = dataclasses.replace(server, name="b", curve=curve, keep_reason="replica")
    planning = PlanningSettings(maximum_step_ratio=0.5, certify=False)
    return Observation("n1", 1, 10.0, 60.0, 2_000_000, (server, other), 10_000, planning).to_json()


def plan_document() -> dict[str, Any]:
    text = json.dumps(observation_document())
    return make_plan(Observation.loads(text, "o.json"), now_seconds=1.0).to_json()


def state_document() -> dict[str, Any]:
    state = SidecarState(last_cycle=7, targets_bytes={"a": 5}, changed_at_seconds={"a": 1.5})
    state.ask(PendingRequest(8, 1.0, 100, {"a": (1, None), "b": (1, 50)}))
    state.replaced = {"a": SavedSettings("0" * 40, {"hz": "10"})}
    state.latencies = {"a": ObservedLatency(0.1, "team", None, 0.5)}
    return json.loads(json.dumps(state.to_json()))


def settings_document() -> dict[str, Any]:
    made = TeamSettings(
        "ann",
        "2026-11-21T12:00:00+00:00",
        {
            "weight": 2.0,
            "backend_latency_seconds": 0.1,
            "minimum_bytes": 0,
            "latency_bound_seconds": 0.05,
            "miss_bound_per_second": 5.0,
        },
    )
    return made.to_json()


def load_observation(text: str) -> None:
    observation = Observation.loads(text, "file.json")
    planning = dataclasses.replace(observation.planning, time_limit_seconds=0.1)
    plan = make_plan(dataclasses.replace(observation, planning=planning), now_seconds=1.0)
    AdaptationPlan.loads(plan.dumps(), "p.json")


DOCUMENTS = {
    "observation": (observation_document(), load_observation),
    "plan": (plan_document(), lambda text: AdaptationPlan.loads(text, "file.json").dumps()),
    "state": (
        state_document(),
        lambda text: SidecarState.from_json(parse_json(text, "file.json", 1 << 20)).to_json(),
    ),
    "settings": (
        settings_document(),
        lambda text: TeamSettings.loads(text, "file.json", SettingsLimits(1 << 30)).dumps(),
    ),
}
DEEP = "[" * 900 + "]" * 900
EVIL = [
    *(
        "1e999",
        "-1e999",
        "NaN",
        "Infinity",
        "5e-324",
        "-0.0",
        "1e-320",
        "0",
        "-1",
        "1",
        "2",
        "1e18",
    ),
    *(str(1 << 62), str(1 << 64), str((1 << 64) - 1), "1" + "0" * 400, "9" * 4300, "9" * 4301),
    *('""', '"\\u0000"', '"\\ud800"', '"' + "x" * 5000 + '"', '"٣"', "null", "true", "{}", "[]"),
    *(DEEP, '{"a":' * 20 + "1" + "}" * 20, "[1,1e999]", "[0.5,0.25]", '[{"name":"a"}]'),
]


def mutated(document: Any, path: tuple[str | int, ...], value: str) -> str:
    """The text of a document with another value in one place: also one that no dict can hold."""
    changed = copy.deepcopy(document)
    table = changed
    for step in path[:-1]:
        table = table[step]
    table[path[-1]] = "the place"
    return json.dumps(changed).replace('"the place"', value)


def check(error: Exception, source: str = "file.json: ") -> None:
    """Check that it is one short sentence."""
    assert str(error).startswith(source)
    assert len(str(error)) < LONGEST_MESSAGE
    assert "\n" not in str(error)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_with_anything_in_any_place_is_read_or_refused(kind):
    document, load = DOCUMENTS[kind]
    load(json.dumps(document))
    for path in places(document):
        for value in EVIL:
            text = mutated(document, path, value)
            try:
                load(text)
            except DocumentError as error:
                check(error)


@pytest.mark.parametrize("kind", DOCUMENTS)
@given(data=st.data())
@settings(max_examples=60)
def test_a_damaged_document_is_read_or_refused(kind, data):
    document, load = DOCUMENTS[kind]
    text = bytearray(json.dumps(document).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text) - 1))
        end = start + data.draw(st.sampled_from([0, 1, 5, 50]))
        text[start:end] = data.draw(st.binary(max_size=4) | st.sampled_from([b"[" * 99, b"e99"]))
    try:
        load(bytes(text))
    except DocumentError as error:
        check(error)


S3_EVENT = {"Records": [{"s3": {"bucket": {"name": "b"}, "object": {"key": "k"}}}]}


@pytest.mark.parametrize("event", [None, [], "text", 5, [S3_EVENT], {"Event": {}}, {"Records": {}}])
def test_an_event_that_is_no_object_is_refused(event, monkeypatch):
    with pytest.raises(RefusedError, match="not one of S3"):
        handler(event, None)


def test_an_event_with_anything_in_any_place_is_refused(monkeypatch):
    monkeypatch.setenv("SPREDS_OBSERVATIONS_BUCKET", "observations")
    for path in places(S3_EVENT):
        for value in EVIL:
            try:
                event = json.loads(mutated(S3_EVENT, path, value))
            except ValueError:
                continue  # such an event does not reach the function
            with pytest.raises(RefusedError) as error:
                handler(event, None)
            check(error.value, "")


def test_a_notification_with_anything_in_any_place_is_read_or_refused():
    keys = ("MessageId", "TopicArn", "Message", "Timestamp", "SignatureVersion", "Signature")
    message = {"Type": "Notification", "SigningCertURL": "u", **dict.fromkeys(keys, "x")}
    for path in places(message):
        for value in EVIL:
            try:
                assert all(
                    isinstance(text, str)
                    for text in _read(mutated(message, path, value).encode()).values()
                )
            except NotificationRefusedError as error:
                check(error, "")


def test_counts_have_bounds():
    document = observation_document()
    document["servers"] = [{}] * 40_000
    with pytest.raises(DocumentError, match="servers must have 1024 tables at most, not 40000"):
        Observation.loads(json.dumps(document), "o.json")
    document = observation_document()
    document["servers"][0]["curve"]["sizes_bytes"] = list(range(MAX_POINTS + 1))
    with pytest.raises(DocumentError, match="sizes_bytes must have 65536 numbers at most"):
        Observation.loads(json.dumps(document), "o.json")


@pytest.mark.parametrize("part", ["[]", "{}", '{"":0}', "[[[[[[[[]]]]]]]]", '{"a":[{}]}'])
@pytest.mark.parametrize("kind", [bytes, str])
def test_what_takes_much_memory_is_refused_before_it_is_made(monkeypatch, part, kind):
    text = '{"x":[' + ",".join([part] * (MAX_NODES + 1)) + "]}"
    monkeypatch.setattr(
        "solver_lambda.documents.json_text.json.loads", lambda text: pytest.fail("was read")
    )
    with pytest.raises(DocumentError, match=r"o\.json: more than 131072 tables, lists and keys"):
        parse_json(text.encode() if kind is bytes else text, "o.json", len(text))


@pytest.mark.parametrize("kind", [bytes, str])
def test_brackets_within_a_text_are_no_lists(kind):
    text = json.dumps({"a": '[:{"\\' * MAX_NODES, "b": 1})
    assert parse_json(text.encode() if kind is bytes else text, "o", len(text)).integer("b") == 1
    with pytest.raises(DocumentError, match="not a JSON document"):
        parse_json('{"a": "' + '\\"[' * MAX_NODES, "o", 1 << 24)


def test_the_state_of_a_sidecar_of_the_most_servers_is_read():
    names = [f"{number:063}" for number in range(MAX_SERVERS)]
    latency = ObservedLatency(0.1, "team", 0.2, 0.5)
    state = SidecarState(
        asked={
            n: PendingRequest(n, 1.0, 1 << 40, dict.fromkeys(names, (1, 1 << 40)))
            for n in range(ASKED_LIMIT)
        },
        targets_bytes=dict.fromkeys(names, 1 << 30),
        changed_at_seconds=dict.fromkeys(names, 1e9),
        replaced=dict.fromkeys(
            names, SavedSettings("r" * 40, {f"knob-{n}": "1" for n in range(4)})
        ),
        latencies=dict.fromkeys(names, latency),
    )
    text = json.dumps(state.to_json())
    assert SidecarState.from_json(parse_json(text, "s", len(text))) == state


def test_a_key_that_stands_twice_is_refused_where_it_matters() -> None:
    text = b'{"what": "pause", "why": {"a": 1}, "what": "resume"}'
    assert parse_json(text, "x", 1000).text("what") == "resume"
    with pytest.raises(DocumentError, match="x: not a JSON document: the key 'what' twice"):
        parse_json(text, "x", 1000, keys_once=True)
    assert parse_json(b'{"a": {"a": 1}}', "x", 1000, keys_once=True).names() == ["a"]


# --- Documents round-trip, and a changed one is refused with a sentence that names the key.


SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


@SHARED
@given(seed=st.integers(0, 10**6), servers=st.integers(1, 6))
def test_documents_round_trip(make_observation, seed, servers):
    observation = make_observation(servers, seed=seed)
    read = Observation.loads(observation.dumps(), "o.json")
    assert read.dumps() == observation.dumps()
    plan = make_plan(read, now_seconds=1.0)
    assert AdaptationPlan.loads(plan.dumps(), "p.json") == plan


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every key in a document."""
    found = []
    if isinstance(value, dict):
        for key, item in value.items():
            found += [(*path, key), *places(item, (*path, key))]
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found += places(item, (*path, number))
    return found


@pytest.mark.parametrize("kind", ["observation", "plan"])
def test_a_changed_document_is_refused_by_the_name_of_the_key(make_observation, kind):
    observation = make_observation(2)
    if kind == "observation":
        text, loads = observation.dumps(), Observation.loads
    else:
        text, loads = make_plan(observation, now_seconds=1.0).dumps(), AdaptationPlan.loads
    document = json.loads(text)
    for path in places(document):
        for mutation in ({"no": "table"}, True, "rename"):
            changed = copy.deepcopy(document)
            table = changed
            for step in path[:-1]:
                table = table[step]
            key = str(path[-1])
            if mutation == "rename":
                table["x" + key] = table.pop(key)
            elif table[key] == mutation:
                continue
            else:
                table[key] = mutation
            if key in ("certify", "goes_back") and mutation is True:
                continue
            with pytest.raises(DocumentError, match=key) as error:
                loads(json.dumps(changed), "file.json")
            assert str(error.value).startswith("file.json: ")
            assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [b"", b"[]", b"nonsense", b"{" * 10**5, b"\xff"])
def test_what_is_no_document_is_refused(text):
    for loads in (Observation.loads, AdaptationPlan.loads):
        with pytest.raises(DocumentError, match=r"file\.json"):
            loads(text, "file.json")


def test_a_plan_tells_demand_only_to_a_sidecar_that_reads_it(make_observation):
    plain = make_observation(2)
    old = json.loads(make_plan(plain, now_seconds=0.0).dumps())
    told = {"weight", "request_rate_per_second", "installed_bytes", "eat_installed_seconds"}
    assert "window_seconds" not in old
    assert not told & old["servers"][0].keys()
    first, second = plain.servers
    servers = (
        dataclasses.replace(first, installed_bytes=first.maxmemory_bytes),
        dataclasses.replace(second, installed_bytes=0),
    )
    new = make_plan(dataclasses.replace(plain, servers=servers), now_seconds=0.0)
    assert new.window_seconds == plain.window_seconds
    limited, unlimited = new.servers
    assert limited.eat_installed_seconds == limited.eat_before_seconds
    assert (limited.weight, limited.request_rate_per_second, limited.installed_bytes) == (
        first.weight,
        first.request_rate_per_second,
        first.maxmemory_bytes,
    )
    assert unlimited.eat_installed_seconds is None
    assert AdaptationPlan.loads(new.dumps(), "new") == new
