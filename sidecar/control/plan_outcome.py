"""Compares what a plan promised with what came after it, and with no plan at all."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sidecar.control.server_outcome import ERRORS, ServerOutcome
from sidecar.curves.read_counts import ReadCounts
from sidecar.plans.plan_harm import reasons_for_a_loss
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.documents.observation import Observation
from solver_lambda.documents.plan import AdaptationPlan
from solver_lambda.documents.server_settings import BOUNDS
from solver_lambda.documents.words import time_words

# Codes of reasons of plans that may cost the mean access time: they keep to bounds, or go back.
_NOT_FOR_A_GAIN = (
    *("bounds", "no_limit", "over_budget", "back"),
    *(setting.option for setting in BOUNDS.values()),
)
_FEWEST_READS = 1000


@dataclass(frozen=True)
class Check:
    """Says what became of a plan.

    Attributes:
        predicted_seconds, observed_seconds, without_seconds: the node's weighted mean access time
            by the reads that came: with the hit ratios that the plan predicted, as it was, and as
            the sizes before would have made it.
        error_seconds: so much may be error.
        verdict: ``failed``: the sizes before would have been better by more than the error;
            otherwise ``kept``: the promise, or ``worse``: it was missed; ``too_early``: it is
            not missed, but what the plan brought is less than the error; or ``not_checked``.
        words: for people.
        at_seconds: Unix time.
        at_fault: the server without which the plan would not have ``failed``; ``None``: there is
            none, or more than one had to be left out.
        predicted_ratio: by how much less the mean access time was to be, in the plan's own words.
    """

    cycle: int
    verdict: str
    words: str
    predicted_seconds: float | None = None
    observed_seconds: float | None = None
    without_seconds: float | None = None
    error_seconds: float | None = None
    at_seconds: float | None = None
    at_fault: str | None = None
    predicted_ratio: float | None = None

    @property
    def realised_ratio(self) -> float | None:
        """Return the share by which the mean access time was less than without the plan."""
        if self.observed_seconds is None or not self.without_seconds:
            return None
        return 1 - self.observed_seconds / self.without_seconds


class PlanOutcome:
    """Judges one plan that was carried out, from then to the next observation; ``before_bytes``
    were the sizes in force (0: no limit)."""

    def __init__(
        self, observation: Observation, plan: AdaptationPlan, before_bytes: Mapping[str, int]
    ) -> None:
        seen = {server.name: server for server in observation.servers}
        self._plan, self.cycle = plan, plan.cycle
        # Only what we saw ourselves counts: anybody can write a reason.
        sizes_bytes = {server.name: server.maxmemory_bytes for server in plan.servers}
        self._excuses = reasons_for_a_loss(sizes_bytes, observation)
        self._partly_because: str | None = None
        self._floor_ratio = observation.planning.minimum_gain_ratio
        self._servers = [
            ServerOutcome(
                seen[server.name],
                server,
                before_bytes.get(server.name) or server.maxmemory_before_bytes,
            )
            for server in plan.servers
        ]

    def take_readings(
        self, readings: Mapping[str, ServerReading | None], not_counted: Collection[str] = ()
    ) -> None:
        """Count what the servers say, again and again; of some, which have other sizes for now, not
        what they did until now."""
        if beside := self.changed.intersection(not_counted):
            self._partly_because = f"{', '.join(sorted(beside))} had other sizes meanwhile"
        for server in self._servers:
            reading = readings.get(server.name)
            if reading is not None:
                server.take_reading(reading, counts=server.name not in not_counted)

    def begin_anew(self, name: str, why: str) -> None:
        """A server has lost keys to something else: what it misses counts when it is full again.
        If the plan left it as it was, the same reads count whatever the sizes are."""
        for server in self._servers:
            if server.name == name and server.is_changed:
                server.begin_anew()
                self._judge_singly(why)

    def leave_out(self, name: str, why: str) -> bool:
        """Count nothing of what a server misses as the plan's from now on; return whether one is
        left that was changed."""
        if name in self.changed:
            self._judge_singly(why)
        self._servers = [server for server in self._servers if server.name != name]
        return bool(self.changed)

    def _judge_singly(self, why: str) -> None:
        """Judge servers singly: a mean without those that gain tells nothing of the whole."""
        self._partly_because = self._partly_because or why

    @property
    def restarted(self) -> list[str]:
        """Return servers that are another process now than at first: they begin empty."""
        return [server.name for server in self._servers if server.is_restarted]

    def know(self, observation: Observation) -> None:
        """Curves may be known better by now."""
        errors = {server.name: server.curve_error_ratio for server in observation.servers}
        for server in self._servers:
            server.know(errors.get(server.name, 1.0))

    def step(self, counts: Mapping[str, ReadCounts], seconds: float) -> None:
        """A step of the curves is over that took so long."""
        for server in self._servers:
            server.step(counts[server.name], seconds)

    @property
    def refuted(self) -> tuple[str, str] | None:
        """Return the server whose curves what came refutes most, and why, for people."""
        found = {
            server: server.miss_ratio - expected
            for server in self._servers
            if server.is_changed and (expected := server.refuted_at) is not None
        }
        if not found:
            return None
        server = max(found, key=lambda one: found[one])
        most = 1 - server.miss_ratio + found[server]
        return server.name, (
            f"{server.name} hits {1 - server.miss_ratio:.1%} with less than it had, and by its "
            f"curve at least {most:.1%} were expected"
        )

    @property
    def changed(self) -> frozenset[str]:
        """Return the servers that the plan gave other sizes."""
        return frozenset(server.name for server in self._servers if server.is_changed)

    def check(self) -> Check:
        """Judge the plan; if it failed, name the server that alone is at fault."""
        check = self._check(self._servers)
        if check.verdict != "failed":
            return check
        # Its counters may lie, or its load may be odd: the others need not suffer for that.
        alone = [
            server
            for server in self._servers
            if server.is_changed and self._check_without(server).verdict != "failed"
        ]
        # If the margin is so thin that several explain it, the one with the most harm is at fault.
        worst = max(alone, key=lambda server: server.harm_seconds, default=None)
        return check if worst is None else replace(check, at_fault=worst.name)

    def _check_without(self, left_out: ServerOutcome) -> Check:
        return self._check([server for server in self._servers if server is not left_out])

    def _check(self, servers: Sequence[ServerOutcome]) -> Check:
        cycle = self.cycle
        if self._partly_because is not None:
            words = f"plan {cycle} is not judged as a whole, as {self._partly_because}"
            return Check(cycle, "not_checked", words)
        code = self._plan.reason.partition(":")[0]
        if code in _NOT_FOR_A_GAIN and code in self._excuses:
            words = f"plan {cycle} was not made for a gain ({code}), and is not judged by one"
            return Check(cycle, "not_checked", words)
        reads = sum(server.reads for server in servers)
        weighted = sum(server.weight * server.reads for server in servers)
        if reads < _FEWEST_READS or not weighted:
            words = f"plan {cycle} could not be judged: only {reads:.0f} reads came after it"
            return Check(cycle, "not_checked", words)
        observed = _mean(servers, [server.miss_ratio for server in servers])
        predicted = None
        if all(server.predicts for server in servers):
            predicted = _mean(servers, [server.predicted_miss_ratio for server in servers])
        without = _mean(servers, [server.miss_ratio_without for server in servers])
        seconds_each = [
            server.weight * server.reads / weighted * server.cost.penalty_seconds
            for server in servers
        ]

        def within(errors: Iterable[float]) -> float:
            summed = math.hypot(*(a * b for a, b in zip(seconds_each, errors, strict=True)))
            return ERRORS * summed + self._floor_ratio * observed

        error = within(server.error for server in servers)
        gain_error = within(server.gain_error for server in servers)
        verdict = "kept" if without - observed > gain_error else "too_early"
        if observed > without + error:
            verdict = "failed"
        elif predicted is None or observed > predicted + error:
            verdict = "worse" if predicted is not None else "not_checked"
        told_error = gain_error if verdict == "too_early" else error
        words = self._words(servers, verdict, predicted, observed, without, told_error)
        promised = self._plan.predicted_gain_ratio
        figures = predicted, observed, without, error
        return Check(cycle, verdict, words, *figures, predicted_ratio=promised)

    def _words(
        self,
        servers: Sequence[ServerOutcome],
        verdict: str,
        predicted: float | None,
        observed: float,
        without: float,
        error: float,
    ) -> str:
        said = (
            f"since plan {self.cycle} the mean access time is {time_words(observed)}; the same "
            f"reads would have made it {time_words(without)} with the sizes before"
        )
        if predicted is not None and verdict in ("worse", "failed"):
            said += f", and {time_words(predicted)} with the hit ratios that it predicted"
        if verdict == "failed":
            changed = (server for server in servers if server.is_changed)
            worst = max(changed, key=lambda server: server.harm_seconds)
            return (
                f"it did harm: {said}; most by {worst.name}, whose hit ratio is "
                f"{1 - worst.miss_ratio:.1%} instead of {1 - worst.miss_ratio_without:.1%}"
            )
        return {
            "kept": f"better: {said}",
            "too_early": f"too early to tell: {said}, by the curves, which may be off by "
            f"{time_words(error)}, and by less as reads come",
            "worse": f"less than predicted: {said}; the load has changed or caches still fill",
        }.get(verdict, said)


def _mean(servers: Sequence[ServerOutcome], miss_ratios: Sequence[float]) -> float:
    total = sum(server.weight * server.reads for server in servers)
    return sum(
        server.weight * server.reads / total * server.cost.mean_seconds(ratio)
        for server, ratio in zip(servers, miss_ratios, strict=True)
    )
