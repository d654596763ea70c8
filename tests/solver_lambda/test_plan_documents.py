"""Documents round-trip, and a changed one is refused with a sentence that names the key."""

from __future__ import annotations

import copy
import dataclasses
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.planning.planner import make_plan

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
