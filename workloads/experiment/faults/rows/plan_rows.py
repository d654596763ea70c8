"""What befalls the clock, the planner, and a plan on its way."""

from __future__ import annotations

from workloads.experiment.faults.rows.row import RowFailedError, Rows
from workloads.experiment.faults.rows.sidecar_rows import swap, swap_and_wait
from workloads.experiment.faults.stage.stage import FaultStage
from workloads.experiment.faults.stage.waiting import wait_for

ROWS = Rows()

HOUR, DAY = 3600.0, 86_400.0
# A plan that does not come is waited for no longer.
SOON_OVERDUE = '[controller]\nkind = "embedded"\nplan_deadline = "3s"'


def _clock(stage: FaultStage, offset_seconds: float) -> None:
    """While it runs, and between two lives; there and back."""
    stage.sidecar.set_clock(offset_seconds)
    swap_and_wait(stage)
    stage.kill_sidecar()
    stage.sidecar.set_clock(0.0)
    stage.recover()
    swap_and_wait(stage)
    stage.kill_sidecar()
    stage.sidecar.set_clock(offset_seconds)
    stage.recover()
    swap_and_wait(stage)
    stage.sidecar.set_clock(0.0)
    swap_and_wait(stage)


@ROWS.add("clock: to and fro", "time.time jumps by two days five times a second")
def _clock_between(stage: FaultStage) -> None:
    """Set the clock back and forth all the time, also between a question and its answer."""
    swap(stage)
    for number in range(20):
        stage.sidecar.set_clock((-1) ** number * DAY)
        stage.wait(0.2)
    stage.sidecar.set_clock(0.0)
    swap_and_wait(stage)


@ROWS.add(
    "planner: late",
    "the solver takes 4 s for two plans",
    "late 4",
    options={"controller": SOON_OVERDUE},
)
@ROWS.add(
    "planner: raises",
    "the solver fails on two plans",
    "raise",
    says=("the planner fails, as it was told to",),
    traces=True,
    options={"controller": SOON_OVERDUE},
)
def _tricks(stage: FaultStage, trick: str, times: int = 2) -> None:
    before = stage.sidecar.log().count("\n")
    for _ in range(times):
        stage.sidecar.trick(trick)
        swap(stage)
        taken = stage.folder / "trick"
        if not wait_for(lambda: not taken.exists(), 30.0):  # noqa: B023 - called in this turn only
            raise RowFailedError("no plan was made")
        stage.converge()
    if stage.sidecar.log().count("\n") == before:
        raise RowFailedError("the log says nothing")


for _words, _seconds in {
    "an hour on": HOUR,
    "an hour back": -HOUR,
    "a day on": DAY,
    "a day back": -DAY,
}.items():
    ROWS.add(
        f"clock: {_words}",
        "time.time of the sidecar jumps so far while it runs and while it is away, and back",
        _seconds,
        quick=_words == "a day back",
    )(_clock)
for _trick, _words, _code in (
    ("twice_the_sizes", "above the budget", "malformed"),
    ("other_budget", "another budget", "wrong_budget"),
    ("other_node", "another node's", "foreign_node"),
    ("old_cycle", "an old cycle's", "old_cycle"),
):
    ROWS.add(
        f"plan: {_words}",
        "a plan that was tampered with is refused, twice, and the next one carried out",
        _trick,
        says=(f"plan refused: {_code}",),
        options={"controller": SOON_OVERDUE},
    )(_tricks)
