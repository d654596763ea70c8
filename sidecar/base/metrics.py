"""Everything that the sidecar counts: each metric's name, labels and meaning, in one place.

The log's "counted since" line and, in Prometheus' text format, ``text`` are made from them.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    disable_created_metrics,
    generate_latest,
)

disable_created_metrics()  # type: ignore[no-untyped-call] # they are all as old as the process

_PREFIX = "spreds_"
_SUFFIX = "_total"


class _Declared:
    """A counter that each ``Metrics`` has one of."""

    def __init__(self, meaning: str, *labels: str) -> None:
        self.meaning = meaning
        self.labels = labels

    def __set_name__(self, owner: type[Metrics], name: str) -> None:
        self._name = name

    def __get__(self, metrics: Metrics, owner: type[Metrics]) -> Counter:
        return metrics.counter(self._name)


class Metrics:
    """Counts of one sidecar; any thread may add to them, but no signal's handler."""

    # Samples.
    samples = _Declared("Samples received")
    batches_lost = _Declared("Batches of samples that never came")
    batches_malformed = _Declared("Messages that are not a batch of samples", "reason")
    batches_of_unknown_instance = _Declared(
        "Batches from a server process that has not been read yet"
    )
    sample_slices_used_up = _Declared(
        "Times that more samples were waiting than fit in a slice of time"
    )
    # Observations and teams' settings.
    observations = _Declared("Observations made")
    observations_without_servers = _Declared("Observations not made, because no server answered")
    observations_failed = _Declared("Observations that could not be stored")
    settings_unread = _Declared("Times that a server's settings could not be read", "server")
    settings_refused = _Declared("Documents of settings that were ignored", "server")
    settings_late = _Declared("Observations made without waiting for the settings any longer")
    # Plans and how they come.
    plans_taken = _Declared("Plans that passed every check", "decision")
    plans_checked = _Declared("Plans whose promise was held against what came", "verdict")
    plans_refused = _Declared("Plans that were not carried out", "reason")
    plans_overdue = _Declared("Observations without a plan in time")
    plans_embedded = _Declared("Plans made by the sidecar itself")
    stand_ins = _Declared("Plans made here because the cloud's was late")
    store_errors = _Declared("Documents that the embedded controller could not keep")
    notifications_taken = _Declared("Notifications that led to a plan")
    notifications_refused = _Declared("Notifications that were not believed", "reason")
    notifications_deferred = _Declared("Notifications put back until the store answers")
    sqs_errors = _Declared("Times that the queue did not answer")
    sqs_failures = _Declared("Messages that could not be handled")
    # Servers and their sizes.
    servers_lost = _Declared("Times that a server went out of reach", "server")
    servers_restarted = _Declared("Restarts of a server that were noticed", "server")
    foreign_changes = _Declared("Sizes that somebody else has set", "server")
    sampler_refused = _Declared("Times that a server's sampler took no settings", "server")
    transitions = _Declared("Steps of transitions", "server")
    transitions_failed = _Declared("Steps that a server refused or did not answer", "server")
    config_set_maxmemory = _Declared("Sizes set", "server")
    shrinks_without_mode = _Declared(
        "Shrinks whose old settings could not be kept on file", "server"
    )
    shrinks_stuck = _Declared("Shrinks after which a server freed nothing", "server")
    rss_waits_given_up = _Declared("Times that resident memory did not fall", "server")
    budget_changes = _Declared(
        "Times that the budget followed the machine, or resident memory", "to"
    )
    budget_unread = _Declared("Times that the limit of machine or cgroup could not be read")
    minima_cut = _Declared("Times that the servers' minima did not fit the budget and were cut")
    rss_budget_given_up = _Declared("Times that resident memory did not fall with maxmemory")
    budgets_exceeded = _Declared("Times that the sizes could not be brought under the budget")
    sizes_fitted = _Declared("Times that others shrank for a server that cannot")
    service_notices_lost = _Declared("Times that the service manager could not be told")
    reloads_refused = _Declared("Configurations that were refused on reload")

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._asked: dict[str, int] = {}
        self._counters = {
            name: Counter(
                f"{_PREFIX}{name}", declared.meaning, declared.labels, registry=self.registry
            )
            for name, declared in vars(Metrics).items()
            if isinstance(declared, _Declared)
        }

    def counter(self, name: str) -> Counter:
        """Raises KeyError: there is no such metric."""
        return self._counters[name]

    def value(self, name: str, **labels: str) -> int:
        """The count of a metric, over all labels that are not given.

        Raises:
            KeyError: there is no such metric.
        """
        (family,) = self.counter(name).collect()
        return sum(
            int(sample.value)
            for sample in family.samples
            if sample.name.endswith(_SUFFIX) and labels.items() <= sample.labels.items()
        )

    def snapshot(self) -> dict[str, int]:
        """What is not 0, by name and labels in words, in their order."""
        found = {}
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name.endswith(_SUFFIX) and sample.value:
                    name = sample.name.removeprefix(_PREFIX).removesuffix(_SUFFIX)
                    labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
                    found[f"{name}[{labels}]" if labels else name] = int(sample.value)
        return dict(sorted(found.items()))

    def since_last_asked(self) -> dict[str, int]:
        """The same, of what was counted since the last call."""
        before, self._asked = self._asked, self.snapshot()
        news = {name: count - before.get(name, 0) for name, count in self._asked.items()}
        return {name: count for name, count in news.items() if count}

    def text(self) -> str:
        """All of them, in Prometheus' text format."""
        return generate_latest(self.registry).decode()
