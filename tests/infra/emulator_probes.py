"""What the stack relies on, asked of any AWS: a short answer to each question.

Each probe makes what it needs under names of its own. ``expected`` is what AWS' own pages say.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from infra.stacks.plan_delivery import own_plans

Client = Callable[..., Any]
QUIET_SECONDS = 1
S3_GUIDE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide"
QUOTAS = "https://docs.aws.amazon.com/general/latest/gr"


@dataclass(frozen=True)
class Probe:
    """Describes a question.

    Attributes:
        asked: in words.
        expected: what AWS answers.
        source: the page that says so.
        held_by: what looks after it here, where an emulator does not.
    """

    asked: str
    expected: str
    source: str
    held_by: str
    ask: Callable[[Client], str]


def answer(probe: Probe, client: Client) -> str:
    """Return ``probe.ask``'s answer, or the code of the error."""
    try:
        return probe.ask(client)
    except ClientError as error:
        return str(error.response["Error"]["Code"])


def _bucket(client: Client, name: str) -> Any:
    s3 = client("s3")
    s3.create_bucket(Bucket=name)
    return s3


def _queue(client: Client, name: str, **attributes: str) -> tuple[str, str]:
    """Make a queue; return its URL and ARN."""
    sqs = client("sqs")
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return url, arn["Attributes"]["QueueArn"]


def _bodies(client: Client, url: str) -> list[dict[str, Any]]:
    """Receive all messages, until none has come for a while."""
    found: list[dict[str, Any]] = []
    while True:
        got = client("sqs").receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=QUIET_SECONDS
        )
        if not got.get("Messages"):
            return found
        found += [json.loads(message["Body"]) for message in got["Messages"]]


def _allow(service: str, action: str, resource: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": action,
        "Resource": resource,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _taken_key(client: Client) -> str:
    s3 = _bucket(client, "taken")
    s3.put_object(Bucket="taken", Key="k", Body=b"1", IfNoneMatch="*")
    s3.put_object(Bucket="taken", Key="k", Body=b"2", IfNoneMatch="*")
    return "written twice"


def _unchanged(client: Client) -> str:
    s3 = _bucket(client, "unchanged")
    tag = s3.put_object(Bucket="unchanged", Key="k", Body=b"1")["ETag"]
    s3.get_object(Bucket="unchanged", Key="k", IfNoneMatch=tag)
    return "sent again"


def _empty_range(client: Client) -> str:
    s3 = _bucket(client, "empty")
    s3.put_object(Bucket="empty", Key="k", Body=b"")
    s3.get_object(Bucket="empty", Key="k", Range="bytes=0-9")
    return "sent"


def _stranger(client: Client, key: str) -> Any:
    """S3, asked by a user who may do nothing but get ``key`` of the bucket ``strange``."""
    iam = client("iam")
    iam.create_user(UserName=f"stranger-{key}")
    statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::*/{key}"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName=f"stranger-{key}", PolicyName="p", PolicyDocument=policy)
    keys = iam.create_access_key(UserName=f"stranger-{key}")["AccessKey"]
    return client("s3", keys["AccessKeyId"], keys["SecretAccessKey"])


def _no_right(client: Client) -> str:
    s3 = _bucket(client, "strange")
    s3.put_object(Bucket="strange", Key="secret", Body=b"1")
    _stranger(client, "other").get_object(Bucket="strange", Key="secret")
    return "sent"


def _absent_without_listing(client: Client) -> str:
    _bucket(client, "absent")
    _stranger(client, "absent").get_object(Bucket="absent", Key="absent")
    return "sent"


def _wrong_owner(client: Client) -> str:
    s3 = _bucket(client, "owned")
    s3.put_object(Bucket="owned", Key="k", Body=b"1", ExpectedBucketOwner="210987654321")
    return "written"


def _notify(client: Client, bucket: str, *topics: tuple[str, str]) -> str:
    configurations = [
        {
            "TopicArn": arn,
            "Events": ["s3:ObjectCreated:*"],
            "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}},
        }
        for arn, prefix in topics
    ]
    client("s3").put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"TopicConfigurations": configurations}
    )
    return "set"


def _open_topic(client: Client, name: str) -> str:
    sns = client("sns")
    arn = str(sns.create_topic(Name=name)["TopicArn"])
    policy = _allow("s3.amazonaws.com", "sns:Publish", arn)
    sns.set_topic_attributes(TopicArn=arn, AttributeName="Policy", AttributeValue=policy)
    return arn


def _closed_topic(client: Client) -> str:
    _bucket(client, "closed-topic")
    arn = client("sns").create_topic(Name="closed")["TopicArn"]
    return _notify(client, "closed-topic", (arn, "plans/"))


def _overlapping(client: Client) -> str:
    _bucket(client, "overlapping")
    arn = _open_topic(client, "overlapping")
    return _notify(client, "overlapping", (arn, "plans/"), (arn, "plans/a"))


def _too_many_notifications(client: Client) -> str:
    _bucket(client, "many")
    arn = _open_topic(client, "many")
    return _notify(client, "many", *((arn, f"{number:03}/") for number in range(101)))


def _announced(client: Client) -> str:
    _bucket(client, "announced")
    arn = _open_topic(client, "announced")
    url, queue = _queue(client, "announced")
    _subscribe(client, arn, url, queue)
    _notify(client, "announced", (arn, "plans/"))
    client("s3").put_object(Bucket="announced", Key="plans/a b+c", Body=b"1")
    events = [json.loads(body["Message"]) for body in _bodies(client, url)]
    keys = [
        record["s3"]["object"]["key"] for event in events for record in event.get("Records", [])
    ]
    tests = sum(event.get("Event") == "s3:TestEvent" for event in events)
    return f"{', '.join(keys) or 'nothing'}; {tests} test event"


def _subscribe(client: Client, topic: str, url: str, queue: str, **attributes: str) -> None:
    client("sqs").set_queue_attributes(
        QueueUrl=url, Attributes={"Policy": _allow("sns.amazonaws.com", "sqs:SendMessage", queue)}
    )
    client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue, Attributes=attributes)


def _own_plans_only(client: Client) -> str:
    arn = _open_topic(client, "filtered")
    url, queue = _queue(client, "filtered")
    policy = json.dumps(own_plans("alpha"))
    _subscribe(client, arn, url, queue, FilterPolicyScope="MessageBody", FilterPolicy=policy)
    for node in ("alpha", "alpha-2", "beta"):
        message = {"Records": [{"s3": {"object": {"key": f"plans/{node}/000000000001.json"}}}]}
        client("sns").publish(TopicArn=arn, Message=json.dumps(message))
    got = [json.loads(body["Message"])["Records"][0] for body in _bodies(client, url)]
    return ", ".join(record["s3"]["object"]["key"].split("/")[1] for record in got) or "nothing"


def _closed_queue(client: Client) -> str:
    arn = client("sns").create_topic(Name="closed-queue")["TopicArn"]
    url, queue = _queue(client, "closed-queue")
    client("sns").subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue)
    client("sns").publish(TopicArn=arn, Message="{}")
    return "delivered" if _bodies(client, url) else "not delivered"


def _too_many_filters(client: Client) -> str:
    sns = client("sns")
    arn = sns.create_topic(Name="filters")["TopicArn"]
    _, queue = _queue(client, "filters")
    for number in range(201):
        endpoint = queue.replace("filters", f"filters-{number}")
        client("sqs").create_queue(QueueName=f"filters-{number}")
        policy = json.dumps({"node": [str(number)]})
        attributes = {"FilterPolicy": policy}
        sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=endpoint, Attributes=attributes)
    return "201 set"


def _long_queue_name(client: Client) -> str:
    client("sqs").create_queue(QueueName="q" * 81)
    return "made"


def _received_too_often(client: Client) -> str:
    sqs = client("sqs")
    dead, arn = _queue(client, "dead")
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "2"})
    url, _ = _queue(client, "alive", RedrivePolicy=redrive, VisibilityTimeout="0")
    sqs.send_message(QueueUrl=url, MessageBody="{}")
    for _ in range(3):
        sqs.receive_message(QueueUrl=url)
    return "in the dead-letter queue" if _bodies(client, dead) else "lost, or still in the queue"


def _long_role_name(client: Client) -> str:
    client("iam").create_role(
        RoleName="r" * 65,
        AssumeRolePolicyDocument=_allow("ec2.amazonaws.com", "sts:AssumeRole", "*"),
    )
    return "made"


def _resources(count: int, outputs: int = 0) -> str:
    resources = {f"Q{number}": {"Type": "AWS::SQS::Queue"} for number in range(count)}
    values = {f"O{number}": {"Value": "x"} for number in range(outputs)}
    return json.dumps({"Resources": resources, **({"Outputs": values} if values else {})})


def _too_many_resources(client: Client) -> str:
    client("cloudformation").create_stack(StackName="large", TemplateBody=_resources(501))
    return "made"


def _too_many_outputs(client: Client) -> str:
    client("cloudformation").create_stack(StackName="wordy", TemplateBody=_resources(1, 201))
    return "made"


def _deployed(client: Client) -> str:
    bucket = {"Type": "AWS::S3::Bucket", "DependsOn": "Policy"}
    notification = {"Event": "s3:ObjectCreated:*", "Topic": {"Ref": "Topic"}}
    bucket["Properties"] = {
        "BucketName": "deployed",
        "NotificationConfiguration": {"TopicConfigurations": [notification]},
    }
    policy = json.loads(_allow("s3.amazonaws.com", "sns:Publish", "*"))
    subscription = {
        "TopicArn": {"Ref": "Topic"},
        "Protocol": "sqs",
        "Endpoint": {"Fn::GetAtt": ["Queue", "Arn"]},
    }
    resources = {
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "deployed"}},
        "Policy": {
            "Type": "AWS::SNS::TopicPolicy",
            "Properties": {"Topics": [{"Ref": "Topic"}], "PolicyDocument": policy},
        },
        "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "deployed"}},
        "Subscription": {"Type": "AWS::SNS::Subscription", "Properties": subscription},
        "Bucket": bucket,
    }
    _create_stack(client, "deployed", {"Resources": resources})
    found = client("s3").get_bucket_notification_configuration(Bucket="deployed")
    topic = client("sns").create_topic(Name="deployed")["TopicArn"]
    made = client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    return f"{len(found.get('TopicConfigurations', []))} notification, {len(made)} subscription"


def _demanded(client: Client) -> str:
    """Return what ``[account]`` of the stack's file asks for, as found after the deployment."""
    key = client("kms").create_key()["KeyMetadata"]["Arn"]
    rule = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    bucket = {
        "BucketName": "demanded",
        "Tags": [{"Key": "team", "Value": "caches"}],
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [rule]},
    }
    role = {
        "RoleName": "demanded",
        "AssumeRolePolicyDocument": json.loads(_allow("ec2.amazonaws.com", "sts:AssumeRole", "*")),
        "PermissionsBoundary": "arn:aws:iam::123456789012:policy/limits",
    }
    resources = {
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": bucket},
        "Role": {"Type": "AWS::IAM::Role", "Properties": role},
    }
    _create_stack(client, "demanded", {"Resources": resources}, "CAPABILITY_NAMED_IAM")
    tagged = "tagged"
    try:
        client("s3").get_bucket_tagging(Bucket="demanded")
    except ClientError as error:
        tagged = str(error.response["Error"]["Code"])
    found = client("s3").get_bucket_encryption(Bucket="demanded")
    rule = found["ServerSideEncryptionConfiguration"]["Rules"][0]
    by = rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]
    bound = client("iam").get_role(RoleName="demanded")["Role"].get("PermissionsBoundary")
    return f"{tagged}, {by}, {'bounded' if bound else 'no boundary'}"


def _create_stack(client: Client, name: str, template: dict[str, Any], *capabilities: str) -> None:
    cloudformation = client("cloudformation")
    cloudformation.create_stack(
        StackName=name, TemplateBody=json.dumps(template), Capabilities=capabilities
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )


_ROLES = "`tests/end_to_end/test_roles_keep_to_their_own.py`, by an evaluator of policies"
_RULES = "`tests/infra/test_who_may_send_to_whom.py`, on the template"
_LIMITS = "`infra/stack_file/limits.py`, before synthesis"

PROBES = (
    Probe(
        "a key is written again under `If-None-Match: *`",
        "PreconditionFailed",
        f"{S3_GUIDE}/conditional-writes.html",
        "the function's tests on both",
        _taken_key,
    ),
    Probe(
        "an object that has not changed is asked for with its ETag",
        "304",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html",
        "the sidecar's tests on both",
        _unchanged,
    ),
    Probe(
        "a range of an empty object",
        "InvalidRange",
        "https://www.rfc-editor.org/rfc/rfc9110#section-15.5.17",
        "the sidecar takes either answer",
        _empty_range,
    ),
    Probe(
        "a user gets an object without a right to it",
        "AccessDenied",
        f"{S3_GUIDE}/access-policy-language-overview.html",
        _ROLES,
        _no_right,
    ),
    Probe(
        "an absent key, asked for by a user who may not list",
        "AccessDenied",
        "https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html",
        "`tests/sidecar/storage/test_absent_key_without_listing.py`, on a store that answers so",
        _absent_without_listing,
    ),
    Probe(
        "a PUT that expects another owner of the bucket",
        "AccessDenied",
        f"{S3_GUIDE}/bucket-owner-condition.html",
        "the tests look that the header is sent",
        _wrong_owner,
    ),
    Probe(
        "a notification to a topic that S3 may not publish to",
        "InvalidArgument",
        f"{S3_GUIDE}/grant-destinations-permissions-to-s3.html",
        _RULES,
        _closed_topic,
    ),
    Probe(
        "two notifications with overlapping prefixes",
        "InvalidArgument",
        f"{S3_GUIDE}/notification-how-to-filtering.html",
        "`tests/infra/test_stack_properties.py`, on the template",
        _overlapping,
    ),
    Probe(
        "101 notifications of a bucket",
        "InvalidArgument",
        f"{S3_GUIDE}/notification-how-to-event-types-and-destinations.html",
        _LIMITS,
        _too_many_notifications,
    ),
    Probe(
        "what is announced of a key with a blank and a plus, and at first",
        "plans/a+b%2Bc; 1 test event",
        f"{S3_GUIDE}/notification-content-structure.html",
        "the function's and the sidecar's tests",
        _announced,
    ),
    Probe(
        "which nodes' plans come through alpha's filter, of alpha, alpha-2 and beta",
        "alpha",
        "https://docs.aws.amazon.com/sns/latest/dg/sns-message-filtering.html",
        "`tests/end_to_end/test_loop_over_aws.py`",
        _own_plans_only,
    ),
    Probe(
        "a message to a queue that SNS may not send to",
        "not delivered",
        "https://docs.aws.amazon.com/sns/latest/dg/subscribe-sqs-queue-to-sns-topic.html",
        _RULES,
        _closed_queue,
    ),
    Probe(
        "201 filter policies of a topic",
        "FilterPolicyLimitExceeded",
        f"{QUOTAS}/sns.html",
        _LIMITS,
        _too_many_filters,
    ),
    Probe(
        "a queue whose name has 81 characters",
        "InvalidParameterValue",
        "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html",
        _LIMITS,
        _long_queue_name,
    ),
    Probe(
        "a message that is received too often",
        "in the dead-letter queue",
        "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
        "sqs-dead-letter-queues.html",
        "the emulator",
        _received_too_often,
    ),
    Probe(
        "a role whose name has 65 characters",
        "ValidationError",
        "https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html",
        "`infra.roles`, before it prints",
        _long_role_name,
    ),
    Probe(
        "a template with 501 resources",
        "ValidationError",
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html",
        _LIMITS,
        _too_many_resources,
    ),
    Probe(
        "a template with 201 outputs",
        "ValidationError",
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html",
        _LIMITS,
        _too_many_outputs,
    ),
    Probe(
        "what a template with a notification and a subscription leaves behind",
        "1 notification, 1 subscription",
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/"
        "aws-properties-s3-bucket-notificationconfig.html",
        "the emulator",
        _deployed,
    ),
    Probe(
        "tags, key in KMS and permissions boundary that a template demands",
        "tagged, aws:kms, bounded",
        "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/"
        "aws-resource-s3-bucket.html",
        "`tests/infra/test_account.py`, on the template",
        _demanded,
    ),
)
