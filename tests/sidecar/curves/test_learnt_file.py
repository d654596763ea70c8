"""What monitors have learnt outlives the sidecar, and fits only what it was learnt of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sidecar.base.metrics import Metrics
from sidecar.curves.decaying_counts import HALF_LIVES
from sidecar.curves.guarded_monitor import GuardedMonitor
from sidecar.curves.monitor import ServerMonitor
from sidecar.curves.monitor_snapshot import learnt_of, restore
from sidecar.curves.warm_up import BLOCK_READS
from sidecar.learnt_file import LearntFile
from sidecar.samples.batch import Batch
from sidecar.samples.sampler_key import SamplerKey
from sidecar.state.state_store import StateStore
from tests.sidecar.fixtures import LoadNode, StartServer, WriteNode
from tests.sidecar.monitored_load import BUDGET, STATS, batches, later, monitor_of, take, zipf
from workloads.local_node import sidecar_in_thread, wait_until
from workloads.local_server import LocalServer
from workloads.sample_batches import SampledServer

CYCLE = 3600.0


def two_halves() -> tuple[list[Batch], list[Batch]]:
    found = batches(zipf(3000, 20_000), SampledServer())
    return found[: len(found) // 2], found[len(found) // 2 :]


def taught(first: list[Batch]) -> ServerMonitor:
    monitor = monitor_of(STATS)
    take(monitor, first)
    monitor.step(60.0)
    return monitor


def test_a_monitor_goes_on_as_if_it_had_never_ended() -> None:
    first, second = two_halves()
    goes_on = taught(first)
    learnt = learnt_of(goes_on)
    assert learnt is not None
    anew = monitor_of(STATS)
    assert restore(anew, learnt, second[0])
    for monitor in (goes_on, anew):
        take(monitor, second)
        monitor.step(60.0)
    ours, theirs = (monitor.shards.stack.listed() for monitor in (anew, goes_on))
    assert np.array_equal(ours[0], theirs[0])
    assert np.array_equal(ours[1], theirs[1])
    estimates = [
        monitor.observe(later(STATS, hits=1, misses=1), BUDGET, None, HALF_LIVES[-1])
        for monitor in (anew, goes_on)
    ]
    assert estimates[0] is not None
    assert estimates[1] is not None
    sizes = np.linspace(1e6, 3e6, 50)
    curves = [one.curve.miss_ratio(sizes) for one in estimates if one is not None]
    assert curves[0] == pytest.approx(curves[1], abs=0.002)
    assert estimates[0].curve_error_ratio < 0.1
    assert estimates[0].keep_reason is None


def test_one_that_cannot_be_written_takes_no_other_with_it(
    tmp_path: Path, load_node: LoadNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure without a bound ended the sidecar, each five minutes."""
    config, metrics = load_node({"good": "unix:///g", "bad": "unix:///b"}), Metrics()
    monitors = {name: GuardedMonitor(name, config, metrics) for name in ("good", "bad")}
    first, _ = two_halves()
    for monitor in monitors.values():
        monitor.observe(STATS, BUDGET)
        take(monitor, first)
    last = monitors["bad"].last_batch
    assert last is not None
    monitors["bad"].last_batch = replace(last, salt_id=1 << 80)
    keys = {name: SamplerKey() for name in monitors}
    LearntFile(tmp_path / "state", monitors, keys).save()
    assert metrics.value("monitors_begun_anew") == 1
    found = {name: GuardedMonitor(name, config, metrics) for name in monitors}
    LearntFile(tmp_path / "state", found, keys)
    assert found["good"].learnt
    assert not found["bad"].learnt


@pytest.mark.parametrize("sure_seconds", [None, 0.02])
def test_a_latency_that_was_sure_stays_known(sure_seconds: float | None) -> None:
    """A server that misses no more would keep whatever size it has after a restart."""
    first, second = two_halves()
    goes_on = taught(first)
    goes_on.latency.fills.waits[...] = 0.0  # faded
    goes_on.latency.sure_seconds = sure_seconds
    learnt, anew = learnt_of(goes_on), monitor_of(STATS)
    assert learnt is not None
    assert restore(anew, learnt, second[0])
    assert anew.latency.mean_seconds == sure_seconds


def test_without_it_a_monitor_begins_anew() -> None:
    """What the test above would not see, if nothing was restored."""
    first, second = two_halves()
    goes_on, anew = taught(first), monitor_of(STATS)
    for monitor in (goes_on, anew):
        take(monitor, second)
    assert len(anew.shards) < len(goes_on.shards)


def test_time_that_has_passed_fades_what_was_counted() -> None:
    first, second = two_halves()
    learnt = learnt_of(taught(first))
    assert learnt is not None
    at_us = round(float(learnt["known"][0]) * 1e6)
    anew = monitor_of(STATS)
    half_hour_later = replace(second[0], first_time_us=at_us + round(CYCLE / 2 * 1e6), parts=())
    assert restore(anew, learnt, half_hour_later)
    faded = anew.counts.histogram.reads.faded / learnt["reads"]
    assert faded == pytest.approx(0.5 ** (0.5 / np.array([1 / 12, 1 / 6, 1.0, 6.0])))


@pytest.mark.parametrize(
    "change",
    [
        lambda batch: replace(batch, instance=batch.instance + 1),
        lambda batch: replace(batch, salt_id=batch.salt_id + 1),
        lambda batch: replace(batch, first_time_us=batch.first_time_us + round(2 * CYCLE * 1e6)),
    ],
)
def test_other_keys_and_other_times_get_nothing(change: Callable[[Batch], Batch]) -> None:
    first, second = two_halves()
    learnt = learnt_of(taught(first))
    assert learnt is not None
    anew = monitor_of(STATS)
    assert not restore(anew, learnt, change(second[0]))
    assert len(anew.shards) == 0
    assert not anew.counts.histogram.reads.faded.any()
    anew.previous = replace(STATS, role="slave")
    assert not restore(anew, learnt, second[0])
    anew.previous = STATS
    learnt["known"][0] += CYCLE  # by a clock that was set back since
    assert not restore(anew, learnt, second[0])


@pytest.mark.parametrize("field", ["population", "keys", "weights", "counts", "waits", "known"])
@pytest.mark.parametrize("how", ["missing", "shape", "type", "value"])
def test_what_is_no_such_array_is_not_taken(field: str, how: str) -> None:
    first, second = two_halves()
    learnt = learnt_of(taught(first))
    assert learnt is not None
    array = learnt.pop(field)
    if how == "shape":
        learnt[field] = np.concatenate([array, array])
    elif how == "type":
        learnt[field] = array.astype(np.float32)
    elif how == "value":
        wrong = {"keys": array[:1], "weights": -1, "population": 0}.get(field, np.nan)
        array[...] = wrong
        learnt[field] = array
    anew = monitor_of(STATS)
    assert not restore(anew, learnt, second[0])
    assert len(anew.shards) == 0


def test_other_keys_under_the_same_curve_are_noticed() -> None:
    """An application that came with new keys while no sidecar ran."""
    first, second = two_halves()
    learnt = learnt_of(taught(first))
    assert learnt is not None
    anew = monitor_of(STATS)
    assert restore(anew, learnt, second[0])
    assert not anew.warm_up.is_on
    anew.warm_up.take(BLOCK_READS, BLOCK_READS // 10, 0)
    anew.take(second[0])
    assert anew.warm_up.is_on
    assert not anew.counts.histogram.reads.faded.any()


def test_of_who_is_still_learnt_nothing_is_kept() -> None:
    monitor = monitor_of(STATS)
    assert learnt_of(monitor) is None
    first, _ = two_halves()
    take(monitor, first)
    assert learnt_of(monitor) is not None
    monitor.shards.volatile = True
    assert learnt_of(monitor) is None


def test_it_is_on_file(
    tmp_path: Path, load_node: LoadNode, caplog: pytest.LogCaptureFixture
) -> None:
    config = load_node({"s.0": "redis://localhost:1"})
    folder = tmp_path / "folder"
    folder.mkdir()
    state, (first, second) = folder / "state.json", two_halves()

    def guarded() -> GuardedMonitor:
        return GuardedMonitor("s.0", config, Metrics())

    monitor = guarded()
    monitor.observe(STATS, BUDGET)
    curves = LearntFile(state, {"s.0": monitor}, defaultdict(SamplerKey))
    take(monitor, first)
    monitor.step(60.0)
    (folder / ".state.json.curves.a1b2c3d4").write_bytes(b"half of it")  # by one that was killed
    StateStore(state)
    curves.save()
    (path,) = folder.glob("*.curves*")
    assert not list(folder.glob(".*.curves*"))
    assert (path.name, path.stat().st_mode & 0o777) == ("state.json.curves", 0o600)
    anew = guarded()
    key = SamplerKey()
    again = LearntFile(state, {"s.0": anew, "other": guarded()}, {"s.0": key})
    assert anew.learnt is not None
    assert key.threshold == monitor.shards.threshold  # at which its keys are known
    # With another P that is no T at all, and CONFIG SET refused it for ever.
    LearntFile(state, {"s.0": guarded()}, {"s.0": key}, 65_536)
    assert key.threshold == 0
    again.save()  # of who has taken nothing yet nothing is lost
    third = guarded()
    third.observe(STATS, BUDGET)
    LearntFile(state, {"s.0": third}, defaultdict(SamplerKey))
    take(third, second[:1])
    assert len(third.shards) >= len(monitor.shards)
    assert third.learnt is None
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        damaged = guarded()
        LearntFile(state, {"s.0": damaged}, defaultdict(SamplerKey))
        assert damaged.learnt is None
    for text in (b"", whole[:-5000], whole[32:], bytes(len(whole))):
        path.write_bytes(text)
        LearntFile(state, {"s.0": damaged}, defaultdict(SamplerKey))
        assert damaged.learnt is None
    assert f"curves are learnt anew: {path} cannot be read" in caplog.text
    LearntFile(None, {"s.0": damaged}, defaultdict(SamplerKey)).save()


def read_all(server: LocalServer, keys: int) -> None:
    pipe = server.client.pipeline(transaction=False)
    for number in range(keys):
        pipe.get(f"key:{number}")
    for number, value in enumerate(pipe.execute()):
        if value is None:
            server.client.set(f"key:{number}", b"x" * 500)


def test_a_sidecar_that_restarts_knows_its_curves(
    start_server: StartServer, write_node: WriteNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    servers = {"a": start_server("4mb"), "b": start_server("4mb")}
    path = write_node(servers, budget="8mb")
    with sidecar_in_thread(path) as sidecar:
        monitor = sidecar._monitors["a"]
        for _ in range(2):
            read_all(servers["a"], 3000)
        wait_until(lambda: monitor.samples_taken > 500, sidecar.metrics.snapshot)
        known = len(monitor.shards)
    with sidecar_in_thread(path) as sidecar:
        monitor = sidecar._monitors["a"]
        read_all(servers["a"], 10)
        wait_until(lambda: "server a: its curve goes on as before" in caplog.text, dict)
        assert len(monitor.shards) >= known
        assert not monitor.warm_up.is_on
