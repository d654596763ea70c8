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


class Metrics:
    """Metrics of one sidecar; any thread may add to them, but no signal's handler."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # Samples.
        self.batches_lost = self._counter("batches_lost", "Batches of samples that never came")
        self.batches_malformed = self._counter(
            "batches_malformed", "Messages that are no batch of samples", "reason"
        )
        self.batches_of_unknown_instance = self._counter(
            "batches_of_unknown_instance", "Batches of a server process that was not read yet"
        )
        self.sample_slices_used_up = self._counter(
            "sample_slices_used_up", "Times that more samples were there than a slice of time takes"
        )
        # Observations and teams' settings.
        self.observations = self._counter("observations", "Observations made")
        self.observations_without_servers = self._counter(
            "observations_without_servers", "Observations not made, because no server answered"
        )
        self.observations_failed = self._counter(
            "observations_failed", "Observations that could not be stored"
        )
        self.settings_unread = self._counter(
            "settings_unread", "Times that a server's settings could not be read", "server"
        )
        self.settings_refused = self._counter(
            "settings_refused", "Documents of settings that were ignored", "server"
        )
        self.settings_late = self._counter(
            "settings_late", "Observations made without waiting for the settings any longer"
        )
        # Plans and how they come.
        self.plans_taken = self._counter("plans_taken", "Plans that passed every check", "decision")
        self.plans_refused = self._counter(
            "plans_refused", "Plans that were not carried out", "reason"
        )
        self.plans_overdue = self._counter("plans_overdue", "Observations without a plan in time")
        self.plans_embedded = self._counter("plans_embedded", "Plans made by the sidecar itself")
        self.stand_ins = self._counter("stand_ins", "Plans made here because the cloud's was late")
        self.store_errors = self._counter(
            "store_errors", "Documents that the embedded controller could not keep"
        )
        self.notifications_taken = self._counter(
            "notifications_taken", "Notifications that led to a plan"
        )
        self.notifications_refused = self._counter(
            "notifications_refused", "Notifications that were not believed", "reason"
        )
        self.notifications_deferred = self._counter(
            "notifications_deferred", "Notifications put back until the store answers"
        )
        self.sqs_errors = self._counter("sqs_errors", "Times that the queue did not answer")
        self.sqs_failures = self._counter("sqs_failures", "Messages that could not be handled")
        # Servers and their sizes.
        self.servers_lost = self._counter(
            "servers_lost", "Times that a server went out of reach", "server"
        )
        self.servers_restarted = self._counter(
            "servers_restarted", "Restarts of a server that were noticed", "server"
        )
        self.foreign_changes = self._counter(
            "foreign_changes", "Sizes that somebody else has set", "server"
        )
        self.sampler_refused = self._counter(
            "sampler_refused", "Times that a server's sampler took no settings", "server"
        )
        self.transitions = self._counter("transitions", "Steps of transitions", "server")
        self.transitions_failed = self._counter(
            "transitions_failed", "Steps that a server refused or did not answer", "server"
        )
        self.config_set_maxmemory = self._counter("config_set_maxmemory", "Sizes set", "server")
        self.shrinks_without_mode = self._counter(
            "shrinks_without_mode", "Shrinks whose old settings could not be kept on file", "server"
        )
        self.shrinks_stuck = self._counter(
            "shrinks_stuck", "Shrinks after which a server freed nothing", "server"
        )
        self.rss_waits_given_up = self._counter(
            "rss_waits_given_up", "Times that resident memory did not fall", "server"
        )
        self.budgets_exceeded = self._counter(
            "budgets_exceeded", "Times that the sizes could not be brought under the budget"
        )
        self.sizes_fitted = self._counter(
            "sizes_fitted", "Times that others shrank for a server that cannot"
        )
        self.reloads_refused = self._counter("reloads_refused", "Configurations not gone over to")

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}{name}", meaning, labels, registry=self.registry)

    def value(self, name: str, **labels: str) -> int:
        """The count of a metric, over all labels that are not given.

        Raises:
            KeyError: there is no such metric.
        """
        counter = getattr(self, name, None)
        if not isinstance(counter, Counter):
            raise KeyError(name)
        (family,) = counter.collect()
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

    def text(self) -> str:
        """All of them, in Prometheus' text format."""
        return generate_latest(self.registry).decode()
