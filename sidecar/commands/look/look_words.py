"""Says what a look found: one screen for people, and JSON for programs."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Sequence

import numpy as np

from sidecar.commands.look.look_answer import (
    COLUMNS,
    Answer,
    gain_error_ratio,
    least_safe_bytes,
    misses_now,
    misses_then,
    rows,
)
from sidecar.commands.look.look_progress import refused_words
from sidecar.commands.printing import WIDTH, print_table, time_or
from sidecar.config.addresses import cli_place, shown_url
from sidecar.look.node_file import DEFAULT_LATENCY_SECONDS
from sidecar.look.server_look import Seen
from sidecar.plans.node_memory import LEAST_SPARED
from solver_lambda.documents.units import format_duration
from solver_lambda.documents.words import reason_words, size_words
from solver_lambda.planning.effective_access_time import AccessCost

# How much farther than now a curve should be known.
_FAR = 1.5
# Nobody considers more memory than this, in parts of what there is.
_MUCH_MORE = 1.5
# More memory is worth a word if it shortens the mean access time by this part.
_WORTH_SAYING = 0.02
# A curve that may be off by so much is rough.
_ROUGH = 0.1
# Nobody need be told that a few rounds came before.
_COUNTED_SHARE = 0.9
# For at most so many servers it is told what each paid.
_MOST_COSTS = 3
# Writes that are no fills may move the curve if they are this part of the reads.
_MANY_WRITES = 0.1
# More lines for a shell are no part of one screen.
_MOST_LINES = 6


def in_words(answer: Answer) -> str:
    """Say on one screen what a look found."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for sentence in headline(answer):
            print(textwrap.fill(sentence, WIDTH))
        print()
        print_table([COLUMNS, *rows(answer)], wraps=True)
        print()
        for note in [*notes(answer), next_words(answer)]:
            print(textwrap.fill(note, WIDTH, break_long_words=False, break_on_hyphens=False))
        for line in _by_hand(answer):
            print(line)
    return text.getvalue().rstrip()


def headline(answer: Answer) -> list[str]:
    """Say what a person wants to know first."""
    known = [one for one in answer.seen if one.is_known]
    if not known:
        return ["Nothing is known yet: look for longer, while the servers are read."]
    sentences = [_move_words(answer)]
    observation = answer.found.observation
    today = sum(server.maxmemory_bytes for server in observation.servers)
    says_less = all(
        one.is_known and not one.is_filling and one.error_at(one.reading.size_bytes) <= _ROUGH
        for one in answer.seen
    )
    least_bytes = least_safe_bytes(answer)
    if least_bytes is not None and least_bytes <= (1 - LEAST_SPARED) * today and says_less:
        least = size_words(least_bytes)
        sentences.append(
            f"Today's mean access time could be had with {least} of {size_words(today)}, divided "
            "otherwise, even if curves are off as the table says: "
            f"--budget {least.replace(' ', '')} shows how."
        )
    if answer.found.plan.decision == "keep":
        sentences += _more_words(answer)
    return sentences


def _more_words(answer: Answer) -> list[str]:
    """Say what more memory would bring, where no move brings anything."""
    plan = answer.found.plan
    more = [one for one in plan.what_if if 1 < one.budget_bytes / plan.budget_bytes <= _MUCH_MORE]
    now = plan.mean_access_time_seconds
    if not more or not now:
        return []
    most = max(more, key=lambda one: one.budget_bytes)
    gain = 1 - most.mean_access_time_seconds / now
    if gain < _WORTH_SAYING or gain > _missed_ratio(answer, now):
        return []
    return [f"With {size_words(most.budget_bytes)} it would be {_percent(gain)} shorter."]


def _missed_ratio(answer: Answer, now_seconds: float) -> float:
    """Return the share of the mean access time that the counted misses take: no memory gains more,
    whatever a curve says."""
    waits = total = 0.0
    for one, server in zip(answer.seen, answer.found.observation.servers, strict=True):
        waits += server.weight * misses_now(one) * AccessCost.of(server).penalty_seconds
        total += server.weight * server.request_rate_per_second
    return waits / (total * now_seconds) if total else 0.0


def _move_words(answer: Answer) -> str:
    plan = answer.found.plan
    given = [(s.name, s.maxmemory_bytes - s.maxmemory_before_bytes) for s in plan.servers]
    if plan.decision == "keep" or not any(change for _, change in given):
        words = f"No move of memory shortens the mean access time by more than {_bound(answer)}"
        return f"{words}{_so_far(answer)}: keep the sizes."
    before = sum(misses_now(one) for one in answer.seen)
    after = sum(
        misses_then(one, planned) for one, planned in zip(answer.seen, plan.servers, strict=True)
    )
    start, end = plan.mean_access_time_before_seconds, plan.mean_access_time_seconds
    verb = "fall" if after <= before else "rise"
    change = advice = ""
    if start:
        off = max(1, round(100 * gain_error_ratio(answer)))
        gain = 1 - (end or 0) / start
        if answer.may_be_chance:
            advice = "Keep the sizes, or look for longer: what this gains may be chance. "
        ratio = f"{_percent(gain)} (± {off} point{'s' if off > 1 else ''})"
        by = f"by {ratio}, from {time_or(start)} to {time_or(end)}"
        change = f", and the mean access time {by}"
        if verb == "rise":
            change = f", but the mean access time falls {by}"
    words = f"{advice}{_gives(given)}: misses {verb} from {before:,.0f} to {after:,.0f} a second"
    return f"{words}{change}{_so_far(answer)}."


def _so_far(answer: Answer) -> str:
    errors = [one.estimate.curve_error_ratio for one in answer.seen if one.estimate]
    is_rough = max(errors, default=1.0) > _ROUGH or any(one.is_filling for one in answer.seen)
    is_beyond = any(
        one.is_known and planned.maxmemory_bytes > one.known_to_bytes
        for one, planned in zip(answer.seen, answer.found.plan.servers, strict=True)
    )
    return " (partly a guess)" if is_rough or is_beyond else ""


def _bound(answer: Answer) -> str:
    ratio = max(answer.found.best_ratio, 0.001)
    chance = answer.found.observation.chance_ratio
    return _percent(ratio) + (", which may be chance" if chance >= ratio > 0.002 else "")


def _gives(changes: Sequence[tuple[str, int]]) -> str:
    grow = [(name, size) for name, size in changes if size > 0]
    shrink = [(name, -size) for name, size in changes if size < 0]
    if not grow:
        return f"Take {_listed([f'{size_words(size)} from {name}' for name, size in shrink])}"
    given = _listed([f"{name} {size_words(size)}" for name, size in grow])
    if not shrink:
        return f"Give {given} more"
    if len(shrink) == 1:
        return f"Give {given} from {shrink[0][0]}"
    taken = _listed([f"{name} ({size_words(size)})" for name, size in shrink])
    return f"Give {given} from {taken}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.{0 if ratio >= 0.1 else 1}f} %"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def notes(answer: Answer) -> list[str]:
    """Say what was not seen, what it cost, what comes next."""
    found = [f"Not looked at: {refused_words(one)}." for one in answer.refused]
    found += [
        f"{one.config.name}: {reason_words(one.estimate.keep_reason)}."
        for one in answer.seen
        if one.estimate is not None and one.estimate.keep_reason is not None
    ]
    configs = [one.config for one in answer.seen] if answer.found_servers else []
    if sockets := [config for config in configs if config.url.startswith("unix:")]:
        at = [f"{config.name} is {shown_url(config.url)}" for config in sockets]
        found.append(f"By their sockets: {_listed(at)}.")
    if answer.guessed_latency:
        found.append(
            f"A miss is taken to cost {time_or(DEFAULT_LATENCY_SECONDS)} everywhere: "
            "--backend-latency NAME=20ms says what it does."
        )
    if silent := [one.config.name for one in answer.seen if not one.tells_settings]:
        found.append(
            f"No CONFIG in {_listed(silent)}: what it would tell is taken for Redis' defaults, and "
            "sizes are set where they are hosted."
        )
    if filling := [one.config.name for one in answer.seen if one.is_filling]:
        found.append(f"Still filling, so that hits rise by themselves: {_names(filling, answer)}.")
    if written := [one.config.name for one in answer.seen if one.is_known and _is_written(one)]:
        found.append(
            f"Written to far more often than filled, which the curve takes for reads: "
            f"{_listed(written)}."
        )
    found += _beyond_words(answer)
    counted_seconds = max((one.seconds for one in answer.seen), default=answer.seconds)
    if counted_seconds < _COUNTED_SHARE * answer.seconds:
        found.append(
            f"Hits and misses were counted in the last {counted_seconds:.0f} s; "
            "before that the look found its keys."
        )
    found.append(
        "Not seen: what replicas serve. Two reads within a second look like one, and a write to a "
        "key that is there like a read."
    )
    cost = [f"{one.config.name} {_cost(one.cost_ratio)}" for one in answer.seen]
    ratios = [one.cost_ratio for one in answer.seen]
    is_short = len(ratios) > _MOST_COSTS or len(set(ratios)) < len(ratios)
    much = f"{_listed(cost)} of a core"
    if is_short:
        much = f"at most {_cost(max(ratios))} of a core in each"
    found.append(f"Asking took {much}. Nothing was set.")
    return found


def _names(names: Sequence[str], answer: Answer) -> str:
    return "all of them" if 1 < len(names) == len(answer.seen) else _listed(names)


def next_words(answer: Answer) -> str:
    """Say what to do next."""
    if all(not one.tells_settings for one in answer.seen):
        return "Next: set these sizes where the servers are hosted."
    if answer.init:
        return f"{answer.init} is written. Next: spreds check {answer.init} --connect"
    return "Next: the same command with --for 5s --init node.toml writes these into a node's file."


def _by_hand(answer: Answer) -> list[str]:
    """Return lines for a shell that set the sizes, the ones that shrink first."""
    changes = [
        (planned.maxmemory_bytes - one.reading.maxmemory_bytes, one, planned.maxmemory_bytes)
        for one, planned in zip(answer.seen, answer.found.plan.servers, strict=True)
        if one.tells_settings and planned.maxmemory_bytes != planned.maxmemory_before_bytes
    ]
    if not changes or len(changes) > _MOST_LINES or answer.may_be_chance:
        return []
    ordered = sorted(changes, key=lambda change: change[0])
    return [
        "Or by hand, in this order. Keys go at once, which clients feel; SPREDS does it slowly:",
        *(
            f"  redis-cli {cli_place(one.config.url)} CONFIG SET maxmemory {size_bytes}"
            for _, one, size_bytes in ordered
        ),
    ]


def _is_written(seen: Seen) -> bool:
    fills = seen.misses / seen.seconds
    reads = (seen.hits + seen.misses) / seen.seconds
    return seen.writes_per_second - fills > _MANY_WRITES * reads


def _cost(ratio: float) -> str:
    return "less than 0.01 %" if ratio < 1e-4 else f"{100 * ratio:.2f} %"


def _beyond_words(answer: Answer) -> list[str]:
    """Say for which servers the gain of more memory is not known, and how long that takes."""
    near = [
        one
        for one, planned in zip(answer.seen, answer.found.plan.servers, strict=True)
        if one.misses
        and one.reading.maxmemory_bytes
        and one.known_to_bytes < max(_FAR * one.reading.maxmemory_bytes, planned.maxmemory_bytes)
    ]
    if not near:
        return []
    by_size: dict[str, list[str]] = {}
    for one in near:
        by_size.setdefault(size_words(one.known_to_bytes), []).append(one.config.name)
    is_each = len(by_size) == 1 < len(near) == len(answer.seen)
    more = [f"{size} of {'each' if is_each else _listed(names)}" for size, names in by_size.items()]
    longest = max([2 * answer.asked_seconds, *(one.age_seconds for one in near)])
    minutes = max(1, int(np.ceil(longest / 60)))
    return [
        f"Above {_listed(more)}, figures are extrapolated: too few reads were of keys that it no "
        f"longer held. --for {format_duration(60.0 * minutes).replace('min', 'm')} would measure "
        "them."
    ]
