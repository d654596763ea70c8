"""Tells what a team's wish would change for its server and for others, before anybody sets it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sidecar.base.time_of_day import time_of_day
from sidecar.commands.printing import print_table, print_wrapped, ratio_or, time_or
from sidecar.config.node import ServerConfig
from sidecar.settings.team_report import MAX_REPORT_BYTES, report_cycle
from sidecar.storage.store import BucketStore, FolderStore
from solver_lambda.documents.keys import observation_key, report_key
from solver_lambda.documents.observation import (
    MAX_OBSERVATION_BYTES,
    Observation,
    ServerObservation,
)
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size
from solver_lambda.documents.words import reason_words, time_words

_COLUMNS = ("server", "counts from", "planned without it", "with it", "hits", "access time")


def last_observation(
    store: FolderStore | BucketStore, node: str, server: str, state_file: Path | None
) -> Observation:
    """Return the last observation that the node's sidecar asked about: by its state, or by the
    team's report.

    Raises:
        DocumentError: there is none.
        StoreError: it may not be read.
    """
    cycle = _last_cycle(state_file)
    if cycle is None and (text := store.get(report_key(node, server), MAX_REPORT_BYTES)):
        cycle = report_cycle(text, report_key(node, server))
    key = observation_key(node, cycle or 0)
    text = store.get(key, MAX_OBSERVATION_BYTES) if cycle else None
    if text is None:
        raise DocumentError(
            f"--dry-run: no observation of node {node} is at hand: its sidecar makes one each "
            "cycle, and --config FILE or the team's report says which is the last"
        )
    return Observation.loads(text, key)


def _last_cycle(state_file: Path | None) -> int | None:
    from sidecar.state.state_store import load_state

    return (load_state(state_file).last_cycle or None) if state_file else None


def wished(
    observation: Observation, name: str, values: Mapping[str, Any], config: ServerConfig | None
) -> Observation:
    """Return the same, had the team's settings been these. ``config``: what the operator says, if
    the node's file is at hand; else as far as the observation tells. Raises DocumentError: it has
    no such server."""
    from sidecar.observing.observed_minima import beside_wishes
    from sidecar.observing.team_wishes import believed_latency, is_immodest, with_wish
    from sidecar.servers.sizes.needed_shares import half_share_bytes

    servers = {server.name: server for server in observation.servers}
    if name not in servers:
        raise DocumentError(f"--dry-run: the last observation has no server {name!r}")
    server = servers[name]
    config = config or _told_by(server)
    measured = server.measured_backend_latency_seconds
    servers[name] = with_wish(server, values)
    if (stated := values.get("backend_latency_seconds")) is not None:
        latency = believed_latency(stated, config, measured)
        servers[name] = replace(
            servers[name], backend_latency_seconds=latency, backend_latency_source="team"
        )
    immodest = {name} if is_immodest(values, config, measured) else {}
    half_bytes = half_share_bytes(len(servers), observation.budget_bytes)
    return replace(
        observation, servers=beside_wishes(tuple(servers.values()), immodest, half_bytes)
    )


def _told_by(server: ServerObservation) -> ServerConfig:
    is_configured = server.backend_latency_source == "configured"
    return ServerConfig(
        server.name,
        "",
        minimum_bytes=server.minimum_bytes,
        backend_latency_seconds=server.backend_latency_seconds if is_configured else None,
    )


def operator_is_unknown(observation: Observation, name: str) -> bool:
    """Whether the operator may have said a latency of it that the observation does not tell, as
    its team's counts there."""
    return any(
        one.name == name and one.backend_latency_source == "team" for one in observation.servers
    )


def print_dry_run(
    observation: Observation, asked: Observation, *, as_json: bool, is_guess: bool = False
) -> None:
    """Print the next plan without the wish, and with it (``asked``). ``is_guess``: how far the
    operator lets a latency count is not known."""
    from solver_lambda.planning.planner import make_plan
    from solver_lambda.planning.size_ranges import is_little_known

    now_seconds = time.time()
    without, wanted = (make_plan(one, now_seconds=now_seconds) for one in (observation, asked))
    if as_json:
        plans = {"without": without.to_json(), "with": wanted.to_json()}
        print(json.dumps(plans, indent=1))
        return
    print_wrapped(
        f"Nothing is set. By what was observed at {time_of_day(observation.made_at_seconds)} "
        "(hits and access time: without it -> with it, by the latency that counts then):"
    )
    unknown = {one.name for one in observation.servers if is_little_known(one, observation)}
    print_table([_COLUMNS, *_rows(_priced(without, asked), wanted, unknown)])
    for before, then in zip(observation.servers, asked.servers, strict=True):
        if before.backend_latency_seconds != then.backend_latency_seconds:
            counts = time_words(then.backend_latency_seconds)
            print_wrapped(f"For {then.name} a backend latency of {counts} counts then.")
    if is_guess:
        print_wrapped(
            "That is a guess: a latency that was set before hides what the operator says, by which "
            "less may count. Those who may read the node's file know it by --config."
        )
    is_same = [one.maxmemory_bytes for one in without.servers] == [
        one.maxmemory_bytes for one in wanted.servers
    ]
    print_wrapped(
        "It would change no size."
        if is_same
        else f"The plan with it: {reason_words(wanted.reason)}. A real one may wait: it moves when "
        "the gain is more than its curves may be off by."
    )


def _priced(without: AdaptationPlan, asked: Observation) -> AdaptationPlan:
    """Return the plan without the wish, its access times by what a miss costs with it: two prices
    would not tell what memory does."""
    from solver_lambda.planning.effective_access_time import AccessCost

    return replace(
        without,
        servers=tuple(
            one
            if one.hit_ratio is None
            else replace(
                one,
                eat_seconds=float(AccessCost.of(server).mean_seconds(1 - one.hit_ratio)),
            )
            for one, server in zip(without.servers, asked.servers, strict=True)
        ),
    )


def _rows(
    without: AdaptationPlan, wanted: AdaptationPlan, unknown: Collection[str]
) -> list[tuple[str, ...]]:
    """Return the table's rows. A plan has no more than a guess for servers that are ``unknown``."""
    return [
        (
            one.name,
            format_size(one.maxmemory_before_bytes),
            format_size(one.maxmemory_bytes),
            format_size(other.maxmemory_bytes),
            *(
                ("guess", "-")
                if one.name in unknown
                else (
                    f"{ratio_or(one.hit_ratio)} -> {ratio_or(other.hit_ratio)}",
                    f"{time_or(one.eat_seconds)} -> {time_or(other.eat_seconds)}",
                )
            ),
        )
        for one, other in zip(without.servers, wanted.servers, strict=True)
    ]
