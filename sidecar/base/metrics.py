"""Declares everything that the sidecar counts: each metric's name, labels and meaning, in one
place.

The log's hourly "counted" line is made from them, and, with what the status adds,
``sidecar/web/exposition.py`` makes the answer to Prometheus.
"""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call] # they are all as old as the process

PREFIX = "spreds_"
SUFFIX = "_total"
_REASON_CODE = re.compile(r"[a-z_]{1,32}")


class _Declared:
    """Declares a counter that each ``Metrics`` has one of."""

    def __init__(self, meaning: str, *labels: str) -> None:
        self.meaning = meaning
        self.labels = labels

    def __set_name__(self, owner: type[Metrics], name: str) -> None:
        self._name = name

    def __get__(self, metrics: Metrics, owner: type[Metrics]) -> Counter:
        return metrics.counter(self._name)


class Metrics:
    """Holds the counts of one sidecar; any thread may add to them, but no signal's handler."""

    # Samples.
    samples = _Declared("Samples that came and belong to a server of this node")
    batches_lost = _Declared("Batches of samples that never came")
    batches_malformed = _Declared(
        "Messages that are not a batch of samples with its server's secret and rate", "reason"
    )
    sample_connections_refused = _Declared(
        "Connections to the samples' endpoint that were ended, or could not be taken", "reason"
    )
    batches_of_unknown_instance = _Declared(
        "Batches from a server process that has not been read yet"
    )
    sample_slices_used_up = _Declared(
        "Times that more samples were waiting than fit in a slice of time"
    )
    # Observations and teams' settings.
    observations = _Declared("Observations made")
    observations_without_servers = _Declared("Observations not made, because no server answered")
    observations_failed = _Declared(
        "Observations that could not be stored, or that a service did not answer"
    )
    settings_unread = _Declared("Times that a server's settings could not be read", "instance")
    settings_refused = _Declared("Documents of settings that were ignored", "instance")
    settings_failures = _Declared("Readings of settings that a fault of ours ended")
    settings_late = _Declared("Observations made without waiting for the settings any longer")
    reports_unwritten = _Declared(
        "Times that teams could not be told what became of their settings"
    )
    # Plans and how they come.
    plans = _Declared(
        "Plans that passed every check, also only shown, by the first word of their reason",
        "decision",
        "reason",
    )
    plans_checked = _Declared("Plans whose promise was held against what came", "verdict")
    plans_refused = _Declared("Plans that were not carried out", "reason")
    plans_overdue = _Declared("Observations without a plan in time")
    plans_embedded = _Declared("Plans made by the sidecar itself")
    stand_ins = _Declared("Plans made here because the one from elsewhere was late")
    ways_back = _Declared("Observations answered here because plans from elsewhere did harm")
    store_errors = _Declared("Documents that could not be kept in controller.folder")
    notifications_taken = _Declared("Notifications that led to a plan")
    notifications_refused = _Declared("Notifications that were not believed", "reason")
    notifications_deferred = _Declared("Notifications put back until the store answers")
    sqs_errors = _Declared("Times that the queue did not answer")
    sqs_failures = _Declared("Messages that could not be handled")
    # Servers and their sizes.
    servers_lost = _Declared("Times that a server went out of reach", "instance")
    servers_restarted = _Declared("Restarts of a server that were noticed", "instance")
    odd_figures = _Declared("Times that a server said what makes no sense", "instance")
    monitors_begun_anew = _Declared(
        "Curves that began anew, as figures could not be computed with", "instance"
    )
    foreign_changes = _Declared("Sizes that somebody else has set", "instance")
    sampler_refused = _Declared("Times that a server's sampler took no settings", "instance")
    transitions = _Declared("Steps of transitions", "instance")
    transitions_failed = _Declared("Steps that a server refused or did not answer", "instance")
    config_set_maxmemory = _Declared("Sizes set", "instance")
    config_set_errors = _Declared(
        "Settings that a server did not take or did not answer", "instance"
    )
    tables_not_counted = _Declared(
        "Connections whose user may not ask for the memory of hash tables", "instance"
    )
    client_lists_too_long = _Declared(
        "Times that it could not be told whether another sidecar is connected", "instance"
    )
    shrinks_without_mode = _Declared(
        "Shrinks whose old settings could not be kept on file", "instance"
    )
    shrinks_stuck = _Declared("Shrinks after which a server freed nothing", "instance")
    rss_waits_given_up = _Declared("Times that resident memory did not fall", "instance")
    budget_changes = _Declared(
        "Times that the budget followed the machine, or resident memory", "to"
    )
    budget_unread = _Declared("Times that the limit of machine or cgroup could not be read")
    minima_cut = _Declared("Times that the servers' minima did not fit the budget and were cut")
    rss_budget_given_up = _Declared("Times that resident memory did not fall with maxmemory")
    budgets_exceeded = _Declared("Times that the sizes could not be brought under the budget")
    shrinks_in_vain = _Declared(
        "Shrinks that were ended, as keys went and their memory did not come back", "instance"
    )
    sizes_held_back = _Declared("Times that sizes were wanted that nobody had judged")
    sizes_fitted = _Declared("Times that others shrank for a server that cannot")
    service_notices_lost = _Declared("Times that the service manager could not be told")
    reloads_refused = _Declared("Configurations that were refused on reload")
    # Those who look on and give orders (sidecar/web/).
    requests_refused = _Declared(
        "Requests of operators and their tools that were refused", "reason"
    )
    operators_sockets_gone = _Declared(
        "Times that the operators' socket had been removed and was made again"
    )
    tokens_unread = _Declared("Times that operators.token_file had no token that could be read")
    operators_not_bound = _Declared(
        "Times that an address of [operators] could not be bound, and operators were not served",
        "key",
    )
    listeners_not_bound = _Declared(
        "Times that an address for samples or notifications could not be bound", "key"
    )

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._asked: dict[str, int] = {}
        self._counters = {
            name: Counter(
                f"{PREFIX}{name}", declared.meaning, declared.labels, registry=self.registry
            )
            for name, declared in vars(Metrics).items()
            if isinstance(declared, _Declared)
        }

    def counter(self, name: str) -> Counter:
        """Return the counter of this name. Raises KeyError: there is no such metric."""
        return self._counters[name]

    @staticmethod
    def labels_of(name: str) -> tuple[str, ...]:
        """Return a metric's label names. Raises KeyError: there is none of this name."""
        declared = vars(Metrics)[name]
        assert isinstance(declared, _Declared)
        return declared.labels

    def value(self, name: str, **labels: str) -> int:
        """Return the count of a metric, over all labels that are not given.

        Raises:
            KeyError: there is no such metric, or it has no such label.
        """
        if unknown := labels.keys() - set(vars(Metrics)[name].labels):
            raise KeyError(f"{name} has no label {', '.join(unknown)}")
        (family,) = self.counter(name).collect()
        return sum(
            int(sample.value)
            for sample in family.samples
            if sample.name.endswith(SUFFIX) and labels.items() <= sample.labels.items()
        )

    def snapshot(self) -> dict[str, int]:
        """Return what is not 0, by name and labels in words, in their order."""
        found = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name.endswith(SUFFIX) and sample.value:
                    name = sample.name.removeprefix(PREFIX).removesuffix(SUFFIX)
                    labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
                    found[f"{name}[{labels}]" if labels else name] = int(sample.value)
        return dict(sorted(found.items()))

    def since_last_asked(self) -> dict[str, int]:
        """Return the same, of what was counted since the last call."""
        before, self._asked = self._asked, self.snapshot()
        news = {name: count - before.get(name, 0) for name, count in self._asked.items()}
        return {name: count for name, count in news.items() if count}


def reason_code(reason: str) -> str:
    """Return the word before the colon of a plan's reason; ``other`` where it is not one. Any
    planner may write what it likes, and each code is a time series."""
    code = reason.partition(":")[0]
    return code if _REASON_CODE.fullmatch(code) else "other"
