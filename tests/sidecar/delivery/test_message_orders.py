"""Every order, loss and duplication of up to six messages about plans.

However they come: no plan is carried out twice, none after a newer one, none that nobody signed;
and the newest that came is carried out.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sidecar.base.metrics import Metrics
from sidecar.delivery import plan_inbox
from sidecar.delivery.message_signature import SignatureCheck
from sidecar.delivery.plan_inbox import Verdict
from sidecar.delivery.sqs_delivery import SqsDelivery
from sidecar.storage.store_s3 import S3Store
from solver_lambda.documents.keys import plan_key
from tests.sidecar.plan_messages import (
    NEW,
    NODE,
    OLD,
    Receiving,
    plan,
    six_messages,
    stored_plans,
)
from tests.sidecar.signed_cloud import SignedCloud
from workloads.local_node import wait_until
from workloads.quiet_log import quiet_log

NEWS = {"old": OLD, "new": NEW, "new again": NEW}
MOST = 6


@pytest.fixture
def silent() -> Iterator[None]:
    with quiet_log():
        yield


def expected(names: Sequence[str]) -> list[int]:
    """Return what is carried out: a plan is if it is newer than all that came before."""
    moves: list[int] = []
    for name in names:
        cycle = NEWS.get(name)
        if cycle is not None and cycle > (moves or [0])[-1]:
            moves.append(cycle)
    return moves


def verdict(names: Sequence[str]) -> Verdict:
    """On the last of them: a message that was dealt with is refused when it comes again."""
    *before, name = names
    return Verdict.TAKEN if name in NEWS and name not in before else Verdict.REFUSED


@pytest.mark.usefixtures("silent")
def test_every_order_loss_and_duplication_of_six_messages(cloud: SignedCloud) -> None:
    bodies = six_messages(cloud)
    receiving = Receiving(cloud, SignatureCheck(cloud.topic_arn, cloud.endpoint_url))
    seen = 0

    def go_on(names: tuple[str, ...]) -> None:
        nonlocal seen
        mark = receiving.mark()
        for name, body in bodies.items():
            came = (*names, name)
            assert receiving.take(body) is verdict(came), came
            assert receiving.moves == expected(came), came
            seen += 1
            # Of the longest ones, those in which nothing comes twice but the last.
            if len(came) < MOST - 1 or (len(came) < MOST and len(set(came)) == len(came)):
                go_on(came)
            receiving.back_to(mark)

    go_on(())
    some = sum(len(bodies) ** length for length in range(1, MOST))
    assert seen == some + math.perm(len(bodies), MOST - 1) * len(bodies)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_message_that_cannot_be_dealt_with_now_comes_again_and_is_not_lost(
    cloud: SignedCloud, failing: int
) -> None:
    """In every order of four: the bucket does not answer the n-th time that it is asked."""
    bodies = six_messages(cloud)
    signature = SignatureCheck(cloud.topic_arn, cloud.endpoint_url)
    for names in itertools.permutations(bodies, 4):
        receiving = Receiving(cloud, signature)
        asked = itertools.count(1)
        receiving.plans.fails = lambda asked=asked: next(asked) == failing
        came, waiting = list[str](), list(names)
        while waiting:
            name, problem = waiting.pop(0), receiving.inbox.problem()
            verdict = receiving.take(bodies[name])
            if verdict is Verdict.LATER:
                waiting.append(name)  # delivered again, after all others
                assert "not now" in (receiving.inbox.problem() or "")
            else:
                # What is refused is nobody's proof that the bucket answers.
                left = None if verdict is Verdict.TAKEN else problem
                assert receiving.inbox.problem() == left
                came.append(name)
        assert sorted(came) == sorted(names)
        assert receiving.moves == expected(came), (names, came)


def test_some_of_the_orders_through_a_real_bucket_and_queue(
    cloud: SignedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    bodies = six_messages(cloud)
    for key, document in stored_plans().items():
        cloud.s3.put_object(Bucket=cloud.plans_bucket, Key=key, Body=document)
    chance = random.Random(7)
    signature = SignatureCheck(cloud.topic_arn, cloud.endpoint_url)
    for number in range(8):
        names = chance.choices(list(bodies), k=MOST)
        queue_url = cloud.sqs.create_queue(QueueName=f"orders-{number}")["QueueUrl"]
        receiving = Receiving(
            cloud, signature, S3Store(cloud.plans_bucket, "us-east-1", cloud.endpoint_url)
        )
        came = _noting(receiving, bodies)
        for name in names:
            cloud.sqs.send_message(QueueUrl=queue_url, MessageBody=bodies[name].decode())
        delivery = SqsDelivery(
            cloud.sqs, queue_url, receiving.inbox, Metrics(), (ClientError,), expect_seconds=0
        )
        delivery.start()
        try:
            wait_until(lambda came=came: len(came) == MOST, lambda came=came: came)
        finally:
            delivery.close()
        assert sorted(came) == sorted(names)
        assert receiving.moves == expected(came)


def _noting(receiving: Receiving, bodies: dict[str, bytes]) -> list[str]:
    """Return a list that will hold what came and was dealt with, in the order in which it came."""
    came: list[str] = []
    take: Any = receiving.inbox.take
    names = {body: name for name, body in bodies.items()}

    def note(body: bytes, _sender: str = "") -> Verdict:
        verdict: Verdict = take(body)
        came.append(names[body])
        return verdict

    receiving.inbox.take = note  # type: ignore[method-assign]
    return came


def test_a_message_that_nobody_has_proven_is_told_of_as_such_and_not_for_long(
    cloud: SignedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiving = Receiving(cloud, SignatureCheck(cloud.topic_arn, cloud.endpoint_url))
    message = json.loads(six_messages(cloud)["new"])
    url = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-ffffffff.pem"
    body = json.dumps({**message, "SigningCertURL": url}).encode()
    with quiet_log():
        assert receiving.take(body) is Verdict.LATER
    assert "perhaps a stranger's, cannot be checked now" in (receiving.inbox.problem() or "")
    monkeypatch.setattr(plan_inbox, "UNPROVEN_SECONDS", 0.0)
    assert receiving.inbox.problem() is None


def test_a_stray_plan_of_a_later_cycle_ends_no_wait_but_its_own(cloud: SignedCloud) -> None:
    receiving = Receiving(cloud, SignatureCheck(cloud.topic_arn, cloud.endpoint_url))
    stray, waited = (plan_key(NODE, cycle) for cycle in (104, NEW))
    receiving.plans.documents[stray] = plan(104).dumps()
    message = cloud.sign(cloud.message(cloud.event(stray)))
    with quiet_log():
        assert receiving.take(json.dumps(message).encode()) is Verdict.TAKEN
    assert receiving.metrics.value("plans_refused", reason="unasked_cycle") == 1
    assert receiving.inbox.has_taken(stray)
    assert not receiving.inbox.has_taken(waited)
    assert receiving.take(six_messages(cloud)["new"]) is Verdict.TAKEN
    assert receiving.inbox.has_taken(waited)
    assert receiving.inbox.has_taken(plan_key(NODE, OLD))
