"""Figure 8.4: what monitoring costs a client that waits for its answer."""

from __future__ import annotations

import statistics

from workloads.bench.sampling.slices import FEWEST, Target
from workloads.bench.sampling.states import MONITOR, OFF, OTHER_STOCK, STOCK, STOCK_AGAIN
from workloads.experiment.picture import plain_ticks, spread
from workloads.experiment.study import Data, Figure, Headline, Study, Table
from workloads.experiment.thesis.latency_slices import (
    CLIENTS,
    IN_USE,
    NULLS,
    SAMPLED,
    SKEW,
    STATES,
    latencies,
    measure,
    ratio,
    slices_of,
)
from workloads.table import percent, signed_percent

WORDS = {
    STOCK_AGAIN.name: "stock again (nothing differs)",
    OTHER_STOCK.name: "stock, another process (nothing differs)",
    OFF.name: "patch, switched off",
    **{
        one.name: f"{one.name.split()[0]}, {100 * (one.rate or 0):.0f} % of the keys"
        for one in SAMPLED
    },
    MONITOR.name: "MONITOR with a reader",
}
SHOWN = (5.0, 25.0, 50.0, 75.0, 95.0)
WANTED = Target(1.01)
COLOURS = {"stock": "0.7", "other": "0.7", "patch": "C0", "module": "C2", "MONITOR": "C3"}


def _seeds(data: Data) -> list[int]:
    return sorted({one["seed"] for one in data["slices"]})


def _of_seeds(data: Data, state: str, clients: int) -> list[float]:
    return [ratio(data, state, clients, seed).median for seed in _seeds(data)]


def _excess(value: float) -> str:
    return signed_percent(value - 1)


def _clients(clients: int) -> str:
    return "one client" if clients == 1 else f"{clients} clients"


def _noise(data: Data, clients: int) -> float:
    """Return how far a seed's medians of servers are apart between which nothing differs."""
    return max(abs(one - 1) for state in NULLS for one in _of_seeds(data, state, clients))


def conclude(data: Data) -> str:
    """The median latencies' ratios beside the noise, and of which of them something can be told."""
    told, lost = [], []
    for state in (*IN_USE, MONITOR.name):
        excesses = {clients: ratio(data, state, clients).median - 1 for clients in CLIENTS}
        parts = [f"{signed_percent(excesses[one])} with {_clients(one)}" for one in CLIENTS]
        told.append(f"{' and '.join(parts)} ({WORDS[state]})")
        unclear = [_clients(one) for one in CLIENTS if abs(excesses[one]) <= _noise(data, one)]
        if unclear:
            lost.append(f"{WORDS[state]} with {' and '.join(unclear)}")
    noises = " and ".join(
        f"{percent(_noise(data, clients))} apart with {_clients(clients)}" for clients in CLIENTS
    )
    unclear_text = f": at that noise nothing can be told of {'; '.join(lost)}" if lost else ""
    text = (
        f"Beside the stock server the median latency of a GET is {'; '.join(told)}. Servers "
        f"between which nothing differs are up to {noises}{unclear_text}."
    )
    slices = len(slices_of(data, STOCK, CLIENTS[0]))
    few = f" {slices} slice{'s' if slices > 1 else ''} of each state show{'s' * (slices == 1)} "
    return text + f"{few}nothing for certain." if slices < FEWEST else text


def tables(data: Data) -> list[Table]:
    """A table for each number of clients."""
    header = ["", *(f"p{percentile:g}, µs" for percentile in SHOWN)]
    slices = len(slices_of(data, STOCK, CLIENTS[0]))
    interval = "95 % interval" if slices >= FEWEST else "their range"
    header += ["median of the ratios to stock's" + f" [{interval}]" * (slices > 1)]
    header += ["medians of the seeds", "processor, µs a GET"]
    return [
        Table(
            f"GET of {data['value_bytes']} bytes, Zipf {SKEW:g} over {data['keys']:,} keys, closed "
            f"loop of {_clients(clients)}; medians of {slices} slice{'s' if slices > 1 else ''} of "
            f"{data['slice_seconds']:g} s",
            header,
            [_row(data, state.name, clients) for state in STATES],
        )
        for clients in CLIENTS
    ]


def _row(data: Data, state: str, clients: int) -> list[str]:
    slices = slices_of(data, state, clients)
    times = [statistics.median(latencies(data, slices, at)) for at in SHOWN]
    row = [WORDS.get(state, "stock"), *(f"{value:.1f}" for value in times)]
    if state == STOCK.name:
        row += ["1", ""]
    else:
        found = ratio(data, state, clients)
        row += [
            str(found) if len(found.ratios) > 1 else f"{found.median:.3f}",
            spread(_of_seeds(data, state, clients), "{:.3f}".format),
        ]
    return [*row, f"{statistics.median(one['cpu_us'] for one in slices):.2f}"]


def draw(figure: Figure, data: Data) -> None:
    """A box for each state: quartiles, and whiskers at 5 and 95 %."""
    panels = figure.subplots(1, len(CLIENTS), sharey=True)
    names = ("whislo", "q1", "med", "q3", "whishi")
    for panel, clients in zip(panels, CLIENTS, strict=True):
        boxes = []
        for state in STATES:
            slices = slices_of(data, state, clients)
            values = [statistics.median(latencies(data, slices, at)) for at in SHOWN]
            label = WORDS.get(state.name, "stock").replace(" (nothing differs)", "")
            boxes.append({"label": label, **dict(zip(names, values, strict=True))})
        drawn = panel.bxp(
            boxes,
            orientation="horizontal",
            patch_artist=True,
            showfliers=False,
            medianprops={"color": "black"},
        )
        for state, box in zip(STATES, drawn["boxes"], strict=True):
            box.set_facecolor(COLOURS[state.name.split()[0]])
        line = panel.axvline(boxes[0]["med"], color="0.2", linestyle=":", label="stock's median")
        # A tail may be twenty times the median: on a linear axis it leaves no room for the boxes.
        panel.set_xscale("log")
        plain_ticks(panel.xaxis)
        panel.set(title=_clients(clients), xlabel="latency, µs (5, 25, 50, 75 and 95 %)")
        panel.grid(axis="x", alpha=0.3)
    panels[0].invert_yaxis()
    figure.legend(handles=[line], loc="outside lower center", fontsize="small")


def headlines(data: Data) -> list[Headline]:
    """The median latency, sampled as by default."""
    return [
        Headline(
            "median latency of a client's GET while 1 % of the keys are sampled, beside a stock "
            "server, patch, module (servers between which nothing differs)",
            "; ".join(
                f"{_clients(clients)} "
                + ", ".join(_excess(ratio(data, state, clients).median) for state in IN_USE)
                + f" (up to {percent(_noise(data, clients))} apart)"
                for clients in CLIENTS
            ),
            "+15 %",
        )
    ]


def missed(data: Data) -> list[str]:
    """A per cent is wanted at most."""
    found = []
    for clients in CLIENTS:
        for state in IN_USE:
            # The patch is in another process than the stock server.
            null = NULLS[1] if state.startswith("patch") else NULLS[0]
            one = ratio(data, state, clients)
            verdict = WANTED.verdict(one, ratio(data, null, clients))
            if verdict != "met":
                found.append(
                    f"{WORDS[state]}, {_clients(clients)}: the median latency is {one} of stock's; "
                    f"{WANTED} was wanted, which is {verdict}"
                )
    return found


STUDY = Study(
    name="figure-8-4",
    title="Figure 8.4: request latency with monitoring",
    question="How much longer does a client wait for a GET while the server is monitored?",
    beside=(
        "The median latency is 15 % higher with monitoring, without self-tuning (section 8.5.2, "
        "Figure 8.4), which becomes negligible once the system tunes itself (the figure's "
        "caption); the rate of sampling is not given."
    ),
    method=(
        "YCSB's workload C in form: reads alone, keys by Zipf's law, from a closed-loop client in "
        "a process and on a core of its own, which notes each latency. All states take turns in "
        "short slices in random order, in fresh servers each round; each is compared with the "
        "stock server of its own round, and so are two servers between which nothing differs. A "
        "process pulls the samples and drops them."
    ),
    measure=measure,
    conclude=conclude,
    tables=tables,
    draw=draw,
    headlines=headlines,
    differences=(
        "The thesis' client and server were on two virtual machines, ours are on one machine and "
        "speak over a Unix socket: there is no network in our latency, so what monitoring adds is "
        "a larger share of it.",
        "Ours is a client in C and reads strings of 100 bytes; YCSB is in Java and reads records "
        "of 1 KB.",
        "That the overhead becomes negligible with self-tuning is not measured here: in figure-8-5 "
        "clients' mean access time is that of monitored servers whose sizes are planned.",
    ),
    missed=missed,
    size_inches=(9.0, 4.2),
)
