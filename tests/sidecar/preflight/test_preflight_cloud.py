"""``spreds check --connect`` asks the cloud, or the service, that is to plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.stacks.plan_delivery import own_plans
from sidecar.cli import main
from sidecar.config.node import load_config
from sidecar.preflight.cloud import check_cloud
from sidecar.preflight.finding import Finding
from sidecar.preflight.preflight import check_service
from tests.secret_file import write_secret
from tests.sidecar.answering import answering
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.played_function import by_queue
from tests.sidecar.signed_cloud import SignedCloud
from tests.sidecar.started_function import started_function

URLS = {"a": "redis://127.0.0.1:1"}
Found = Callable[[str], list[Finding]]


@pytest.fixture(autouse=True)
def subscription(cloud: SignedCloud) -> Iterator[str]:
    """Subscribe the queue, as the stack does, to what S3 tells of plans; beside a function that
    observations start."""
    queue = cloud.sqs.get_queue_attributes(QueueUrl=cloud.queue_url, AttributeNames=["QueueArn"])
    made = cloud.sns.subscribe(
        TopicArn=cloud.topic_arn, Protocol="sqs", Endpoint=queue["Attributes"]["QueueArn"]
    )
    _tell_of_plans(cloud, "plans/")
    with started_function(cloud) as function:
        function.count("Invocations", 1)
        yield made["SubscriptionArn"]
    cloud.sns.unsubscribe(SubscriptionArn=made["SubscriptionArn"])


def _tell_of_plans(cloud: SignedCloud, *prefixes: str) -> None:
    told = [
        {
            "TopicArn": cloud.topic_arn,
            "Events": ["s3:ObjectCreated:*"],
            "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}},
        }
        for prefix in prefixes
    ]
    cloud.s3.put_bucket_notification_configuration(
        Bucket="plans", NotificationConfiguration={"TopicConfigurations": told}
    )


@pytest.fixture
def found(write_node: WriteNode) -> Found:
    """Return what is found of a cloud with this ``[controller]``."""

    def look(controller: str) -> list[Finding]:
        config = load_config(write_node(URLS, more=controller))
        return list(check_cloud(config.node, config.controller))

    return look


def _levels(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.level, finding.where.removeprefix("controller.")) for finding in findings]


@pytest.mark.parametrize("kind", ["auto", "lambda", "fargate"])
def test_a_cloud_that_is_well_is_told_and_no_message_is_touched(
    cloud: SignedCloud, found: Found, kind: str
) -> None:
    cloud.sqs.send_message(QueueUrl=cloud.queue_url, MessageBody="a plan")
    assert _levels(found(by_queue(cloud, kind))) == [
        ("ok", "controller"),
        ("ok", "observations_bucket"),
        ("ok", "observations_bucket"),
        ("ok", "controller, function"),
        ("ok", "plans_bucket"),
        ("ok", "plans_bucket"),
        ("ok", "queue_url"),
        ("ok", "topic_arn"),
    ]
    names = ["ApproximateReceiveCount"]
    got = cloud.sqs.receive_message(QueueUrl=cloud.queue_url, AttributeNames=names)
    (message,) = got["Messages"]
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    cloud.sqs.delete_message(QueueUrl=cloud.queue_url, ReceiptHandle=message["ReceiptHandle"])


@pytest.mark.parametrize(
    ("right", "wrong", "where", "says"),
    [
        ('"observations"', '"observation"', "observations_bucket", "NoSuchBucket"),
        ('"plans"', '"plan"', "plans_bucket", "NoSuchBucket"),
        ('/n1"', '/n2"', "queue_url", "does not exist"),
    ],
)
def test_a_misspelt_name_is_told(
    cloud: SignedCloud, found: Found, right: str, wrong: str, where: str, says: str
) -> None:
    controller = by_queue(cloud).replace(right, wrong)
    (problem,) = [finding for finding in found(controller) if finding.level != "ok"]
    assert (problem.level, problem.where) == ("problem", f"controller.{where}")
    assert says in problem.what
    assert f"mend controller.{where}" in problem.remedy


def test_another_accounts_topic_and_another_nodes_queue_are_told(
    cloud: SignedCloud, found: Found
) -> None:
    name = f"{cloud.queue_url.rpartition('/')[2]}-other"
    queue_url = cloud.sqs.create_queue(QueueName=name)["QueueUrl"]
    own_account = cloud.topic_arn.split(":")[4]
    controller = by_queue(cloud).replace(cloud.queue_url, queue_url)
    controller = controller.replace(cloud.topic_arn, cloud.topic_arn.replace(own_account, "2" * 12))
    said = {finding.where: finding.what for finding in found(controller) if finding.level != "ok"}
    assert f"and the topic is of account {'2' * 12}" in said["controller"]
    assert "by its name it is another node's, and we are n1" in said["controller.queue_url"]


def test_a_queue_that_is_not_subscribed_is_told(
    cloud: SignedCloud, found: Found, subscription: str
) -> None:
    """As after somebody removed the subscription by hand: nothing else looks wrong."""
    cloud.sns.unsubscribe(SubscriptionArn=subscription)
    (problem,) = [finding for finding in found(by_queue(cloud)) if finding.level != "ok"]
    assert problem.where == "controller.topic_arn"
    assert "n1 is not subscribed to arn:aws:sns:" in problem.what
    assert "deploy, put it back, and deploy" in problem.remedy


@pytest.mark.parametrize("prefixes", [(), ("plans/another/",)])
def test_plans_that_nobody_is_told_of_are_told(
    cloud: SignedCloud, found: Found, prefixes: tuple[str, ...]
) -> None:
    """The notification was removed, and everything looked well."""
    _tell_of_plans(cloud, *prefixes)
    (problem,) = [finding for finding in found(by_queue(cloud)) if finding.level != "ok"]
    assert problem.where == "controller.plans_bucket"
    assert f"plans does not tell {cloud.topic_arn} of plans for n1" in problem.what


@pytest.mark.parametrize(("node", "is_own"), [("n1", True), ("n2", False)])
def test_a_filter_that_lets_no_plan_through_is_told(
    cloud: SignedCloud, found: Found, subscription: str, node: str, is_own: bool
) -> None:
    for name, value in (
        ("FilterPolicyScope", "MessageBody"),
        ("FilterPolicy", json.dumps(own_plans(node))),
    ):
        cloud.sns.set_subscription_attributes(
            SubscriptionArn=subscription, AttributeName=name, AttributeValue=value
        )
    problems = [finding for finding in found(by_queue(cloud)) if finding.level != "ok"]
    assert [one.where for one in problems] == [] if is_own else ["controller.topic_arn"]
    assert all("a filter that lets no plan of n1 through" in one.what for one in problems)


def test_another_account_for_the_buckets_alone_is_told(cloud: SignedCloud, found: Found) -> None:
    account = cloud.topic_arn.split(":")[4]
    first, *_ = found(f'{by_queue(cloud)}\naccount_id = "222222222222"')
    assert (first.level, first.where) == ("advice", "controller")
    assert f"are to be of account 222222222222, and the topic is of {account}" in first.what


def test_without_credentials_nothing_else_is_asked(
    cloud: SignedCloud, found: Found, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (problem,) = found(by_queue(cloud))
    assert (problem.level, problem.where) == ("problem", "controller")
    assert "Unable to locate credentials" in problem.what
    assert "give the machine a role" in problem.remedy
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    (problem,) = found(by_queue(cloud))
    assert "profile (nobody) could not be found" in problem.what


@pytest.mark.parametrize(
    ("forbidden", "levels"),
    [
        (("/observations",), ["ok", "problem", "ok", "ok", "ok", "ok"]),
        # So S3 answers for a plan that is not there, too, to who may not list.
        (("/plans",), ["ok"] * 8),
        # To list them may be allowed, and to put them not.
        (("/observations/observations/",), ["ok", "ok", "problem", *["ok"] * 5]),
    ],
)
def test_what_is_forbidden_is_told_as_far_as_it_can_be_known(
    cloud: SignedCloud,
    found: Found,
    monkeypatch: pytest.MonkeyPatch,
    forbidden: tuple[str, ...],
    levels: list[str],
) -> None:
    monkeypatch.setattr(cloud, "forbidden", forbidden)
    findings = found(by_queue(cloud))
    assert [finding.level for finding in findings] == levels
    if "problem" in levels:
        (problem,) = (finding for finding in findings if finding.level == "problem")
        assert "AccessDenied" in problem.what
        assert "spreds check --iam" in problem.remedy
    else:
        assert "whether plans may be read is seen with the first one" in findings[4].what


def test_a_cloud_that_cannot_be_reached_is_told(cloud: SignedCloud, found: Found) -> None:
    controller = by_queue(cloud).replace(cloud.endpoint_url, "http://127.0.0.1:9")
    findings = found(controller)
    assert [finding.level for finding in findings] == ["advice", *["problem"] * 3]
    assert all("Could not connect" in finding.what for finding in findings)
    assert all("controller.region" in finding.remedy for finding in findings)


def test_an_embedded_node_asks_nobody(cloud: SignedCloud, found: Found) -> None:
    asked = len(cloud.requests)
    assert found(by_queue(cloud, "embedded")) == []
    assert found("") == []
    assert len(cloud.requests) == asked


def test_the_command_asks_the_cloud(
    cloud: SignedCloud,
    write_node: WriteNode,
    start_server: StartServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = by_queue(cloud).replace('"plans"', '"plan"')
    path = write_node({"a": start_server("12mb").url}, budget="24mb", more=more)
    assert main(["check", str(path), "--connect", "--json"]) == 1
    said = capsys.readouterr().out
    findings = json.loads(said[said.index("[\n {") :])  # moto prints first that it has no Docker
    (problem,) = [finding for finding in findings if finding["level"] == "problem"]
    assert problem["where"] == "controller.plans_bucket"


PAGE = b"HTTP/1.1 200 OK\r\n\r\n<html>welcome</html>"
READY = b'HTTP/1.1 200 OK\r\n\r\n{"status": "ready"}\n'
REFUSED = b'HTTP/1.1 401 Unauthorized\r\n\r\n{"error": "the token is wrong"}'


@pytest.mark.parametrize(
    ("answer", "level", "says", "remedy"),
    [
        (PAGE, "problem", "is no solver: a GET gets '<html>welcome</html>'", "mend the address"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "problem", "is no solver", "mend the address"),
        (READY, "ok", "answers", ""),
        (REFUSED, "problem", "says 401: the token is wrong", "mend controller.token_file"),
    ],
)
def test_a_service_must_be_a_solver(
    write_node: WriteNode, tmp_path: Path, answer: bytes, level: str, says: str, remedy: str
) -> None:
    write_secret(tmp_path / "token", "only-for-tests-0123456789")
    with answering(answer) as url:
        more = f'[controller]\nkind = "http"\nurl = "{url}"\ntoken_file = "token"\n'
        config = load_config(write_node(URLS, more=more))
        # On loopback nobody sees the token: no advice beside it.
        (finding,) = check_service(config.controller)
    assert (finding.level, finding.where) == (level, "controller.url")
    assert says in finding.what
    assert remedy in finding.remedy
    assert bool(finding.remedy) == (level == "problem")
    assert ("token" in finding.remedy) == ("401" in says)
