"""What the sidecar does with a thousand to two million samples a second, and what they teach it.

As a program it is who sends them at a given rate, as a server does: ``python -m ... ENDPOINT RATE
SECONDS SEED SECRET``. It sends batches of 50 ms or 16 KiB and never waits. It says when it is
ready, and begins when a line tells it to. It says as JSON how many were offered and what had to be
dropped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import numpy as np
import zmq

from sidecar.base.metrics import Metrics
from sidecar.config.sampling import SamplingConfig
from sidecar.curves.monitor import ServerMonitor
from sidecar.sample_intake import SampleIntake
from sidecar.samples.endpoint import bind_endpoint
from sidecar.samples.sampler_key import SamplerKey
from sidecar.samples.wire_format import DEFAULT_MODULUS, MAX_BATCH_RECORDS, Operation
from workloads.experiment.growth.learning import learn
from workloads.experiment.picture import spread
from workloads.experiment.study import Data, Figure, Headline, Scope, Study, StudyError, Table
from workloads.load import zipf_keys
from workloads.processes import ROOT
from workloads.sample_batches import SampledServer
from workloads.table import percent

# As the sampler has it (redis_patch/core/transport.h).
QUEUE_BATCHES = 32
BATCH_SECONDS = 0.05
SKEW = 0.99
SAMPLED_KEYS = 8_000
OBJECT_BYTES = 300


def send(endpoint: str, rate: float, seconds: float, seed: int, secret: bytes) -> dict[str, float]:
    """Send samples from ``seed``'s draws; return what was offered and dropped."""
    random = np.random.default_rng(seed)
    records = min(MAX_BATCH_RECORDS, max(1, round(rate * BATCH_SECONDS)))
    count = max(1, round(rate * seconds / records)) * records
    keys = zipf_keys(SAMPLED_KEYS, SKEW, count, random)
    hashes = random.integers(1 << 64, size=SAMPLED_KEYS, dtype=np.uint64)
    interval = records / rate
    messages = list(
        SampledServer(threshold=DEFAULT_MODULUS, secret=secret).batches(
            hashes[keys],
            np.full(count, Operation.READ_HIT),
            OBJECT_BYTES,
            times_us=np.arange(count) / rate * 1e6,
            batch_records=records,
        )
    )
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.set(zmq.IMMEDIATE, 1)
    socket.set(zmq.SNDHWM, QUEUE_BATCHES)
    socket.connect(endpoint)
    socket.poll(10_000, zmq.POLLOUT)
    print("ready", flush=True)
    sys.stdin.readline()
    dropped = 0
    begun = time.monotonic()
    for number, message in enumerate(messages):
        ahead = begun + number * interval - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        try:
            socket.send(message, zmq.DONTWAIT)
        except zmq.Again:
            dropped += 1
    took = time.monotonic() - begun
    socket.close(linger=1000)
    context.term()
    return {
        "offered": count,
        "seconds": max(took, len(messages) * interval),
        "dropped_batches": dropped,
        "batches": len(messages),
    }


RATES = (1_000, 10_000, 100_000, 300_000, 1_000_000, 2_000_000)
SECONDS = 2.0
QUICK_RATES = (1_000, 20_000)
QUICK_SECONDS = 0.5
# Of the server whose curve is learnt.
KEYS = 1_000_000
SAMPLED_SHARE = 0.01
LIVE_OBJECTS = 8192
# The number of the sender's process, as its run id would tell it.
RUN_ID = f"{1:016x}{0:024x}"
KEPT_UP_RATIO = 0.999


def measure(scope: Scope) -> Data:
    """Measure for each rate and seed what was taken, at what cost, and the error of the curve of a
    second's samples."""
    rates = QUICK_RATES if scope.is_quick else RATES
    rows = []
    for place, rate in enumerate(rates):
        rounds = []
        for seed in scope.seeds:
            done = (place + (seed - scope.seeds[0]) / len(scope.seeds)) / len(rates)
            scope.progress(f"{rate:,} samples a second", done)
            taken = _take(rate, QUICK_SECONDS if scope.is_quick else SECONDS, seed)
            learnt = learn(KEYS, SAMPLED_SHARE, rate, LIVE_OBJECTS, seed)
            rounds.append({**taken, "mean_error": learnt.mean_error})
        rows.append({"rate": rate, "rounds": rounds})
    return {"rows": rows}


def _take(rate: int, seconds: float, seed: int) -> dict[str, float]:
    """The sidecar's receiver, joining and monitor in this thread, the sender in a process."""
    metrics = Metrics()
    key = SamplerKey()
    monitors = {"one": ServerMonitor("one")}
    sampling = SamplingConfig("", is_automatic=False, threshold=DEFAULT_MODULUS)
    intake = SampleIntake(sampling, monitors, {"one": key}, lambda: {"one": RUN_ID}, metrics)
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="spreds-samples-") as folder:
        endpoint = f"ipc://{Path(folder) / 'samples'}"
        command = [sys.executable, "-m", "workloads.experiment.growth.samples", endpoint]
        with (
            bind_endpoint(endpoint, metrics) as receiver,
            subprocess.Popen(
                [*command, str(rate), str(seconds), str(seed), key.secret.hex()],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            ) as sender,
        ):  # fmt: skip
            assert sender.stdin
            assert sender.stdout
            sender.stdout.readline()  # all is encoded
            sender.stdin.write("\n")
            sender.stdin.flush()
            begun = time.thread_time()
            while sender.poll() is None:
                intake.take(receiver, stop)
            told, _ = sender.communicate()
            if sender.returncode:
                raise StudyError(f"the sender of samples ended with exit code {sender.returncode}")
            last = -1
            while (taken := metrics.snapshot().get("samples", 0)) != last:
                last = taken
                intake.take_now(receiver, stop)
            processor = time.thread_time() - begun
    sent = json.loads(told)
    return {
        "offered_per_second": sent["offered"] / sent["seconds"],
        "taken_ratio": last / sent["offered"],
        "dropped_batches": sent["dropped_batches"] + metrics.snapshot().get("batches_lost", 0),
        "processor_ratio": processor / sent["seconds"],
        "microseconds_a_sample": processor / max(1, last) * 1e6,
    }


def _column(row: Data, key: str) -> list[float]:
    return [one[key] for one in row["rounds"]]


def _most_kept_up(data: Data) -> int | None:
    """The greatest rate at which nothing was lost, and no queue grew either."""
    kept = [
        row["rate"]
        for row in data["rows"]
        if median(_column(row, "taken_ratio")) >= KEPT_UP_RATIO
        and median(_column(row, "processor_ratio")) <= 1
    ]
    return max(kept, default=None)


def conclude(data: Data) -> str:
    """Say where it saturates."""
    most = _most_kept_up(data)
    last = data["rows"][-1]
    if most == last["rate"]:
        kept = f"all rates that were tried, the greatest {most:,} samples a second"
    else:
        least = "no rate that was tried" if most is None else f"{most:,} samples a second"
        cost = median(_column(last, "microseconds_a_sample"))
        kept = (
            f"{least}; at {last['rate']:,} a second a sample costs {cost:.1f} µs, so that it takes "
            f"{1e6 / cost:,.0f} of them"
        )
    errors = [median(_column(row, "mean_error")) for row in data["rows"]]
    return (
        f"One thread of the sidecar keeps up with {kept}; what is too much is dropped and "
        f"counted. The curve of one second's samples is off by "
        f"{errors[0]:.3f} at {data['rows'][0]['rate']:,} and by {errors[-1]:.3f} at "
        f"{last['rate']:,} of them."
    )


def tables(data: Data) -> list[Table]:
    """Make a row for each rate."""
    return [
        Table.of(
            "Median (least to greatest) over seeds",
            data["rows"],
            {
                "samples a second": lambda row: f"{row['rate']:,}",
                "taken": lambda row: spread(_column(row, "taken_ratio"), percent),
                "processor time": lambda row: spread(_column(row, "processor_ratio"), percent),
                "of a sample": lambda row: spread(
                    _column(row, "microseconds_a_sample"), "{:.1f} µs".format
                ),
                "mean error of the curve": lambda row: spread(
                    _column(row, "mean_error"), "{:.4f}".format
                ),
            },
        )
    ]


def draw(figure: Figure, data: Data) -> None:
    """Draw what is taken on the left, what is learnt on the right."""
    left, right = figure.subplots(1, 2)
    rates = [row["rate"] for row in data["rows"]]
    for key, style, label in (
        ("taken_ratio", "C0o-", "samples taken"),
        ("processor_ratio", "C1s--", "of one core"),
    ):
        left.plot(
            rates, [100 * median(_column(row, key)) for row in data["rows"]], style, label=label
        )
    left.set(xscale="log", xlabel="samples a second", ylabel="%", ylim=(0, 105))
    left.legend(fontsize="small")
    right.plot(rates, [median(_column(row, "mean_error")) for row in data["rows"]], "C2^-")
    right.set(
        xscale="log", yscale="log", xlabel="samples a second",
        ylabel="error of the curve after one second",
    )  # fmt: skip
    for panel in (left, right):
        panel.grid(alpha=0.3)


def headlines(data: Data) -> list[Headline]:
    """Tell where it saturates."""
    most = _most_kept_up(data)
    beyond = [row["rate"] for row in data["rows"] if most is None or row["rate"] > most]
    said = "none of those tried" if most is None else f"{most:,}"
    if most is not None and beyond:
        said += f" (the next that was tried is {beyond[0]:,})"
    return [Headline("samples a second that one thread of the sidecar keeps up with", said)]


STUDY = Study(
    name="growth-samples",
    title="Samples a second",
    question="How many samples does the sidecar keep up with, and how good is the curve of a "
    "second's?",
    beside="The thesis samples one server under one client and gives no rates. The SHARDS paper "
    "reports 17 million requests a second before sampling (Waldspurger and others, FAST'15).",
    method=(
        "A process sends batches over ZeroMQ as a server does, 50 ms or 16 KiB each, dropping "
        "what cannot be sent; the sidecar's own receiver, joining and monitor take them in one "
        "thread; processor time is over the time in which they were sent, and above 100 % a queue "
        "grows meanwhile. 8,000 keys of Zipf "
        "0.99, all sampled. The error is of a curve of one server with "
        "a million keys at R = 0.01, learnt from nothing but the samples of one second, about the "
        "next request, over 20 sizes from 5 to 100 % of its keys; the truth is Che's approximation."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "Sender and sidecar share the machine's two cores; with TTLs or LFU a sample costs more.",
    ),
    size_inches=(8.0, 3.4),
)


if __name__ == "__main__":
    where, rate, seconds, seed, secret = sys.argv[1:]
    told = send(where, float(rate), float(seconds), int(seed), bytes.fromhex(secret))
    print(json.dumps(told))
