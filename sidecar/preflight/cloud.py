"""Whether AWS knows the node, its cell's buckets and its queue, and lets it in.

Nothing is changed but for an empty document beside the node's observations, which starts nothing:
it tries the right to put them. No message is received, which might keep a plan from a sidecar that
runs.

The smallest IAM policy for a node's sidecar: what the installation gives all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from sidecar.config.addresses import shown_url
from sidecar.config.controller_config import CloudConfig, ControllerConfig
from sidecar.preflight.finding import Finding
from sidecar.preflight.solver_function import (
    DEPLOY,
    LIMIT_SECONDS,
    UNSEEN,
    check_function,
    code_of,
    is_of,
)
from sidecar.storage.configured_stores import make_bucket
from sidecar.storage.store import BucketStore, StoreError
from solver_lambda.documents.keys import (
    OBSERVATIONS_PREFIX,
    PLANS_PREFIX,
    REPORTS_PREFIX,
    SETTINGS_PREFIX,
    plan_key,
    settings_prefix,
)
from solver_lambda.documents.reader import DocumentError


def iam_policy(node: str, cloud: CloudConfig) -> dict[str, Any]:
    """Return a policy document; ``cloud`` is the cell that the node's file names."""
    partition, region, account = (cloud.topic_arn.split(":")[place] for place in (1, 3, 4))
    observations = f"arn:{partition}:s3:::{cloud.observations_bucket}"
    plans = f"arn:{partition}:s3:::{cloud.plans_bucket}"
    own = f"{node}/*"
    statements = [
        _allow(
            "PutOwnObservations", ["s3:PutObject"], f"{observations}/{OBSERVATIONS_PREFIX}/{own}"
        ),
        _allow("PutOwnReports", ["s3:PutObject"], f"{observations}/{REPORTS_PREFIX}/{own}"),
        _allow("GetOwnSettings", ["s3:GetObject"], f"{observations}/{SETTINGS_PREFIX}/{own}"),
        {
            **_allow("ListOwnSettings", ["s3:ListBucket"], observations),
            "Condition": {"StringLike": {"s3:prefix": f"{SETTINGS_PREFIX}/{own}"}},
        },
        _allow("GetOwnPlans", ["s3:GetObject"], f"{plans}/{PLANS_PREFIX}/{own}"),
    ]
    if cloud.queue_url is None:
        statements.append(
            _allow("ConfirmSubscription", ["sns:ConfirmSubscription"], cloud.topic_arn)
        )
    else:
        name = cloud.queue_url.rstrip("/").rpartition("/")[2]
        statements.append(
            _allow(
                "ReceiveOwnPlans",
                ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"],
                f"arn:{partition}:sqs:{region}:{account}:{name}",
            )
        )
    return {"Version": "2012-10-17", "Statement": statements}


def _allow(sid: str, actions: list[str], resource: str) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resource}


_RIGHTS = (
    "give the node's role the rights that 'spreds check --iam' prints; where they come by tag, its "
    "tag spreds-node must be the node's name"
)
_CREDENTIALS = (
    "give the machine a role, or AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to the "
    "sidecar's environment"
)
_NETWORK = "look at controller.region and endpoint_url, and at the machine's way there"
_SUBSCRIBE = (
    "take the node's line out of the stack's file, deploy, put it back, and deploy: CloudFormation "
    "believes that the subscription is there"
)
# Not a document of a cycle: no function and no task is started by it.
_CHECKED = "checked"
_MOST_PAGES = 50  # of a hundred subscriptions each; a topic has one of each node
_FORBIDDEN = ("AccessDenied", "403")
# SQS says so only to who may ask: no message can have the receipt that we name.
_NO_RECEIPT = ("ReceiptHandleIsInvalid", "InvalidParameterValue")


def check_cloud(node: str, controller: ControllerConfig) -> Iterator[Finding]:
    """Asks for the caller's identity, the node's settings, a plan and the queue, if plans come from
    a cloud."""
    cloud = controller.cloud
    if cloud is None or controller.kind == "embedded":
        return
    try:
        identity = _identity(cloud)
        yield identity
        if identity.level == "problem":
            return  # all else would fail for the same cause
        yield (settings := _settings(node, cloud))
        if settings.level == "ok":  # else the cause would be told twice
            yield _observations(node, cloud)
            yield from check_function(node, cloud)
        yield (plans := _plans(node, cloud))
        if plans.level == "ok":
            yield _announced(node, cloud)
        if cloud.queue_url is not None:
            yield (queue := _queue(node, cloud, cloud.queue_url))
            if queue.level != "problem":
                yield _subscription(node, cloud, cloud.queue_url)
    except DocumentError as error:
        what = str(error).removeprefix("controller: ")
        remedy = "mend it in the node's file or in AWS_PROFILE's, or install boto3"
        yield Finding("problem", "controller", what, remedy)


def _identity(cloud: CloudConfig) -> Finding:
    from sidecar.storage.aws import aws_errors, client

    sts = client("sts", cloud.region, cloud.endpoint_url, LIMIT_SECONDS)
    try:
        caller = sts.get_caller_identity()
    except aws_errors() as error:
        if code_of(error) or "redentials" in type(error).__name__:
            return Finding("problem", "controller", f"AWS does not know us: {error}", _CREDENTIALS)
        # A node may have a way to S3 and SQS alone.
        return Finding("advice", "controller", f"who we are is not known: {error}", _NETWORK)
    what, owner = f"AWS knows us as {caller['Arn']}", cloud.topic_arn.split(":")[4]
    if cloud.account_id and cloud.account_id != owner:
        what = f"the buckets are to be of account {cloud.account_id}, and the topic is of {owner}"
        mend = "mend controller.account_id: python -m infra.node_config prints it"
        return Finding("advice", "controller", what, mend)
    if caller["Account"] == owner:
        return Finding("ok", "controller", what)
    return Finding(
        "advice",
        "controller",
        f"{what}, and the topic is of account {owner}",
        "let it be if that account lets us in; else mend controller.topic_arn, or the credentials",
    )


def _bucket(name: str, cloud: CloudConfig) -> BucketStore:
    return make_bucket(name, cloud.region, cloud.endpoint_url, LIMIT_SECONDS, cloud.account_id)


def _observations(node: str, cloud: CloudConfig) -> Finding:
    key, bucket = "controller.observations_bucket", _bucket(cloud.observations_bucket, cloud)
    document = f"{OBSERVATIONS_PREFIX}/{node}/{_CHECKED}"
    try:
        bucket.put(document, b"")
    except StoreError as error:
        return Finding("problem", key, str(error), _remedy(key, error.__cause__))
    return Finding("ok", key, f"{bucket} takes {document}, as it will take observations")


def _settings(node: str, cloud: CloudConfig) -> Finding:
    key, prefix = "controller.observations_bucket", settings_prefix(node)
    bucket = _bucket(cloud.observations_bucket, cloud)
    try:
        bucket.versions(prefix)
    except StoreError as error:
        return Finding("problem", key, str(error), _remedy(key, error.__cause__))
    return Finding("ok", key, f"{bucket} answers, and lists {prefix}")


def _plans(node: str, cloud: CloudConfig) -> Finding:
    key = "controller.plans_bucket"
    bucket = _bucket(cloud.plans_bucket, cloud)
    try:
        bucket.get(plan_key(node, 0), max_bytes=1)
    except StoreError as error:
        if code_of(error.__cause__) not in _FORBIDDEN:
            return Finding("problem", key, str(error), _remedy(key, error.__cause__))
        # A caller without the right to list gets the same answer for an absent key.
        what = f"{bucket} answers; whether plans may be read is seen with the first one"
        return Finding("ok", key, what)
    return Finding("ok", key, f"{bucket} answers")


def _announced(node: str, cloud: CloudConfig) -> Finding:
    """Whether S3 tells the topic of plans."""
    from sidecar.storage.aws import aws_errors, client

    key, bucket = "controller.plans_bucket", cloud.plans_bucket
    owner = {"ExpectedBucketOwner": cloud.account_id} if cloud.account_id else {}
    s3 = client("s3", cloud.region, cloud.endpoint_url, LIMIT_SECONDS)
    try:
        told = s3.get_bucket_notification_configuration(Bucket=bucket, **owner)
    except aws_errors() as error:
        if code_of(error) not in _FORBIDDEN:
            return Finding("problem", key, f"{bucket}: {error}", _remedy(key, error))
        return Finding("ok", key, f"whether {bucket} tells of plans {UNSEEN}")
    topics = [
        one["TopicArn"]
        for one in told.get("TopicConfigurations", ())
        if is_of(f"{PLANS_PREFIX}/{node}/", one)
    ]
    if cloud.topic_arn in topics:
        return Finding("ok", key, f"{bucket} tells {cloud.topic_arn} of plans")
    what = f"{bucket} does not tell {cloud.topic_arn} of plans for {node}: none will come"
    return Finding("problem", key, what, DEPLOY)


def _queue(node: str, cloud: CloudConfig, url: str) -> Finding:
    from sidecar.storage.aws import aws_errors, client

    key = "controller.queue_url"
    sqs = client("sqs", cloud.region, cloud.endpoint_url, LIMIT_SECONDS)
    try:
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle="none", VisibilityTimeout=0)
    except aws_errors() as error:
        if code_of(error) not in _NO_RECEIPT:
            return Finding("problem", key, f"{shown_url(url)}: {error}", _remedy(key, error))
    if not url.rstrip("/").endswith(node):
        what = f"{shown_url(url)} answers; by its name it is another node's, and we are {node}"
        return Finding("advice", key, what, "mend node, or controller.queue_url, in the file")
    return Finding("ok", key, f"{shown_url(url)} answers")


def _subscription(node: str, cloud: CloudConfig, url: str) -> Finding:
    from sidecar.storage.aws import aws_errors, client

    key, name = "controller.topic_arn", url.rstrip("/").rpartition("/")[2]
    queue = ":".join([*cloud.topic_arn.split(":")[:5], name]).replace(":sns:", ":sqs:")
    sns = client("sns", cloud.region, cloud.endpoint_url, LIMIT_SECONDS)
    pages = sns.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=cloud.topic_arn)
    try:
        found = [
            one
            for page in islice(pages, _MOST_PAGES)
            for one in page["Subscriptions"]
            if one["Endpoint"] == queue
        ]
        policies = [_filter_policy(sns, one["SubscriptionArn"]) for one in found]
    except aws_errors() as error:
        if code_of(error) not in (*_FORBIDDEN, "AuthorizationError"):
            return Finding("problem", key, f"{cloud.topic_arn}: {error}", _remedy(key, error))
        # A node's own rights do not reach so far.
        return Finding("ok", key, f"whether the queue is subscribed {UNSEEN}")
    own = f'"{PLANS_PREFIX}/{node}/"'
    if any(not policy or own in policy for policy in policies):
        return Finding("ok", key, f"{name} is subscribed to {cloud.topic_arn}")
    if policies:
        what = f"{name} is subscribed with a filter that lets no plan of {node} through"
        return Finding("problem", key, f"{what}: {policies[0]}", _SUBSCRIBE)
    what = f"{name} is not subscribed to {cloud.topic_arn}: no plan will come by it"
    return Finding("problem", key, what, _SUBSCRIBE)


def _filter_policy(sns: Any, subscription_arn: str) -> str:
    told = sns.get_subscription_attributes(SubscriptionArn=subscription_arn)
    return str(told["Attributes"].get("FilterPolicy", ""))


def _remedy(key: str, error: BaseException | None) -> str:
    code = code_of(error)
    if not code:
        return _NETWORK
    if code in _FORBIDDEN:
        return _RIGHTS
    mend = f"mend {key}, or controller.region: python -m infra.node_config prints both"
    if code.startswith(("NoSuch", "AWS.SimpleQueueService.NonExistent", "NotFound")):
        return (
            f"if it is gone, {_SUBSCRIBE}; else {mend}"
            if "queue" in key
            else (f"if the cell is not deployed (any more), deploy it; else {mend}")
        )
    return mend
