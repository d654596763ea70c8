"""What befalls the cloud, and what comes through its bucket and its queue."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from solver_lambda.documents.keys import plan_key
from solver_lambda.documents.plan import AdaptationPlan
from workloads.experiment.faults.rows.row import RowFailedError, Rows, RowSkippedError
from workloads.experiment.faults.rows.sidecar_rows import swap, swap_and_wait
from workloads.experiment.faults.stage.node import WAIT_SECONDS
from workloads.experiment.faults.stage.stage import FaultStage
from workloads.experiment.faults.stage.waiting import wait_for

ROWS = Rows()

# As many cycles as there are in a day, of an hour each.
DAY_CYCLES = 24
ALL = ("s3", "sns", "sqs")
_one_at_a_time = threading.Lock()


@contextmanager
def _cloud(kind: str) -> Iterator[Mapping[str, Any]]:
    try:
        from workloads.experiment.faults.stage.cloud import ENVIRONMENT, LocalCloud, PlayedFunction
    except ImportError as error:
        raise RowSkippedError(f"it needs moto, of the extra dev: {error}") from error
    # There is one moto in a process.
    with _one_at_a_time, LocalCloud() as cloud, PlayedFunction(cloud) as function:
        yield {
            "controller": cloud.controller(kind),
            "environment": ENVIRONMENT,
            "cloud": cloud,
            "function": function,
        }


STANDS_IN: dict[str, Any] = {
    "says": ("the embedded solver stands in",),
    "around": partial(_cloud, "auto"),
}


@ROWS.add(
    "cloud: slow",
    "each answer of S3, SNS and SQS takes 2 s longer, for 8 cycles",
    "slow",
    8,
    around=partial(_cloud, "auto"),
)
def _day_without(
    stage: FaultStage, trouble: str, cycles: int, services: Collection[str] = ALL
) -> str:
    """The sidecar plans itself, cycle after cycle; then the cloud is back and plans again."""
    before = len(stage.sidecar.plans())
    stage.cloud.begin(trouble, services)
    if services == ("sns",):
        # It has the certificate, of which alone it asks SNS, until it starts again.
        stage.kill_sidecar()
        stage.start_sidecar()
    swap_and_wait(stage)
    # The solver that stands in has a thread of its own, which stays.
    stage.resources = replace(stage.resources, threads=stage.resources.threads + 1)
    made = wait_for(lambda: len(stage.sidecar.plans()) >= before + cycles, 10.0 * cycles)
    asked = stage.cloud.asked
    told = len(stage.function.told)
    stage.cloud.heal()
    if not made:
        raise RowFailedError(f"only {len(stage.sidecar.plans()) - before} plans were made")
    if not wait_for(lambda: len(stage.function.told) >= told + 3, WAIT_SECONDS):
        raise RowFailedError("the function plans no more")
    swap_and_wait(stage)
    return f"{asked} requests came meanwhile"


@ROWS.add(
    "function: twice",
    "it tells of each plan twice",
    "twice",
    says=("notification refused: replayed",),
    around=partial(_cloud, "lambda"),
)
@ROWS.add(
    "function: late",
    "it answers 3 s late, after the next observation is made",
    "late",
    says=("no plan in time",),
    around=partial(_cloud, "lambda"),
)
@ROWS.add(
    "function: fails",
    "it does not answer three observations",
    "fails",
    says=("no plan in time",),
    around=partial(_cloud, "lambda"),
)
def _function(stage: FaultStage, way: str) -> None:
    stage.function.way = way
    swap(stage)
    if way == "fails":
        if not wait_for(lambda: stage.function.failed >= 3, WAIT_SECONDS):
            raise RowFailedError("it was not asked three times")
        stage.function.way = "well"
    stage.converge()
    swap_and_wait(stage)
    stage.function.way = "well"
    swap_and_wait(stage)


def _hostile(stage: FaultStage) -> dict[str, str]:
    """Messages that nobody may be moved by, each with the word for why."""
    cloud, told = stage.cloud, stage.function.told
    good = cloud.message(told[-1])
    return {
        "not_json": "{" * 1000,
        "type": json.dumps({"Type": "Invitation"}),
        "topic": json.dumps({**good, "TopicArn": f"{good['TopicArn']}-other"}),
        "signature": json.dumps({**good, "Message": good["Message"].replace("plans/", "plans//")}),
        "signature_version": json.dumps({**good, "SignatureVersion": "1"}),
        "certificate_url": json.dumps({**good, "SigningCertURL": "https://example.com/a.pem"}),
        "expired": json.dumps(cloud.message(told[-1], Timestamp="2020-01-01T00:00:00.000Z")),
        "from_the_future": json.dumps(cloud.message(told[-1], Timestamp="2099-01-01T00:00:00Z")),
        "key": json.dumps(cloud.message(plan_key("somebody-else", 1))),
        "no_plan": json.dumps(cloud.message(plan_key("faults", 1))),
    }


@ROWS.add(
    "queue: hostile messages",
    "ten messages that are no good, in between the real ones",
    says=("notification refused",),
    around=partial(_cloud, "lambda"),
)
def _refuses_messages(stage: FaultStage) -> str:
    """Send all of them, in between the real ones; each is told by its word, or by how often."""
    swap_and_wait(stage)
    messages = _hostile(stage)
    for body in messages.values():
        stage.cloud.send(body)
    swap_and_wait(stage)
    if not wait_for(lambda: not stage.cloud.waiting(), WAIT_SECONDS):
        raise RowFailedError(f"{stage.cloud.waiting()} messages stay in the queue")
    stage.sidecar.end(signal.SIGTERM)
    counted = re.findall(r"notifications_refused\[reason=(\w+)\]", stage.sidecar.log())
    if missing := messages.keys() - set(counted):
        raise RowFailedError(f"not refused: {', '.join(sorted(missing))}")
    return f"{len(messages)} messages"


@ROWS.add(
    "queue: replayed and reordered",
    "old plans are told of again, twice each and the last first, with signatures that fit",
    says=("plan refused: old_cycle",),
    around=partial(_cloud, "lambda"),
)
def _replayed(stage: FaultStage) -> None:
    for _ in range(3):
        swap(stage)
        for key in reversed(stage.function.told[-3:]):
            message = json.dumps(stage.cloud.message(key))
            stage.cloud.send(message)
            stage.cloud.send(message)
        stage.converge()


@ROWS.add(
    "bucket: forged plans",
    "five plans of who may write plans and tell of them, in between the real ones",
    says=("plan refused",),
    around=partial(_cloud, "lambda"),
)
def _forged(stage: FaultStage) -> None:
    """Somebody who may write plans and tell of them, with sizes that the budget does not allow, of
    another cycle, or of another node; the servers stay where they are."""
    swap_and_wait(stage)
    sizes = stage.sizes_bytes()
    stored = stage.cloud.s3.get_object(Bucket="plans", Key=stage.function.told[-1])["Body"].read()
    plan = AdaptationPlan.loads(stored, "plan").to_json()
    far = int(plan["cycle"]) + 1_000_000
    doubled = [{**s, "maxmemory_bytes": 2 * s["maxmemory_bytes"]} for s in plan["servers"]]
    for cycle, changes in (
        (far, {}),
        (far + 1, {"servers": doubled, "decision": "apply"}),
        (far + 2, {"node": "somebody-else"}),
        (far + 3, {"budget_bytes": 1 << 50, "servers": doubled, "decision": "apply"}),
        (far + 4, {"made_at_seconds": time.time() + 1e6}),
    ):
        key = plan_key("faults", cycle)
        body = json.dumps({**plan, "cycle": cycle, **changes})
        stage.cloud.s3.put_object(Bucket="plans", Key=key, Body=body)
        stage.cloud.send(json.dumps(stage.cloud.message(key)))
    if not wait_for(lambda: "plan refused" in stage.sidecar.log(), WAIT_SECONDS):
        raise RowFailedError("the log does not say that it was refused")
    if stage.sizes_bytes() != sizes:
        raise RowFailedError(f"sizes were {sizes}, and are {stage.sizes_bytes()}")
    swap_and_wait(stage)


for _trouble, _words, _does in (
    ("refuses", "refuses", "answer 503"),
    ("hole", "a black hole", "accept and never answer"),
):
    ROWS.add(
        f"cloud: {_words}",
        f"S3, SNS and SQS {_does} for {DAY_CYCLES} cycles (a day of hours), and are back",
        *(_trouble, DAY_CYCLES),
        **STANDS_IN,
    )(_day_without)
    for _service in ALL:
        _does = {"refuses": "answers 503", "hole": "accepts and never answers"}[_trouble]
        ROWS.add(
            f"cloud: only {_service.upper()} {_words}",
            f"{_service.upper()} alone {_does} for 5 cycles, and is back",
            *(_trouble, 5, (_service,)),
            **STANDS_IN,
        )(_day_without)
