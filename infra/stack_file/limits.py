"""How much AWS takes, with its source, and whether a configuration keeps to it.

Looked at before synthesis, which would find too much only when all is built, if at all: quotas of
the account are found by a deployment that breaks off. A test holds the counts to the templates.
Where AWS can raise a quota on request, the one of a usual account stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_CLOUDFORMATION = (
    "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"
)
_SNS = "https://docs.aws.amazon.com/sns/latest/dg/subscription-filter-policy-constraints.html"
_S3 = "https://docs.aws.amazon.com/general/latest/gr/s3.html"
_IAM = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"
_LAMBDA = "https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"
_SQS = (
    "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html"
)
_VPC = "https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"
_BUCKET_NAMES = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"

# These limits are ours, not AWS': a node's cycles; a century, where S3 would take 32 bits; and what
# an observation holds.
MOST_CYCLES_PER_DAY = 10_000
MOST_RETENTION_DAYS = 36_500
MOST_SERVERS = 1024


@dataclass(frozen=True)
class Limit:
    """``most`` of ``what``; ``source`` is AWS' page that says so."""

    most: int
    what: str
    source: str


RESOURCES = Limit(500, "resources in a CloudFormation stack", _CLOUDFORMATION)
OUTPUTS = Limit(200, "outputs of a CloudFormation stack", _CLOUDFORMATION)
TEMPLATE_BYTES = Limit(1_000_000, "bytes in a CloudFormation template", _CLOUDFORMATION)
STACKS = Limit(2_000, "CloudFormation stacks in an account and region", _CLOUDFORMATION)
TOPIC_FILTERS = Limit(200, "filter policies on an SNS topic", _SNS)
ACCOUNT_FILTERS = Limit(10_000, "SNS filter policies in an account and region", _SNS)
NOTIFICATIONS = Limit(100, "notification configurations of an S3 bucket", _S3)
BUCKETS = Limit(10_000, "S3 buckets in an account", _S3)
BUCKET_NAME = Limit(63, "characters in the name of an S3 bucket", _BUCKET_NAMES)
QUEUE_NAME = Limit(80, "characters in the name of an SQS queue", _SQS)
FUNCTION_NAME = Limit(64, "characters in the name of a Lambda function", _LAMBDA)
# A new account may have as few as 10, and none of those can be reserved.
CONCURRENCY = Limit(1_000, "functions at once in an account and region", _LAMBDA)
UNRESERVED_CONCURRENCY = 100  # which Lambda keeps for functions that reserve none
# The account's default network counts.
VPCS = Limit(5, "networks in an account and region", _VPC)
# Roles are made by whoever runs what `infra.roles` prints: one for each node and team.
ROLES = Limit(1_000, "IAM roles in an account", _IAM)
ROLE_NAME = Limit(64, "characters in the name of an IAM role", _IAM)
MANAGED_POLICIES = Limit(1_500, "managed policies in an account", _IAM)
POLICY_CHARACTERS = Limit(6_144, "characters in a managed policy, without blanks", _IAM)


@dataclass(frozen=True)
class Counts:
    """Counts what a template, or a part of one, has; ``size_bytes`` at most."""

    resources: int
    outputs: int
    size_bytes: int

    def plus(self, part: Counts, times: int = 1) -> Counts:
        return Counts(
            self.resources + times * part.resources,
            self.outputs + times * part.outputs,
            self.size_bytes + times * part.size_bytes,
        )


SHARED = Counts(resources=7, outputs=1, size_bytes=12_000)
REFUSED = Counts(resources=3, outputs=0, size_bytes=4_000)  # where there is a solver
CELL = {
    "embedded": Counts(resources=6, outputs=5, size_bytes=16_000),
    "lambda": Counts(resources=6, outputs=5, size_bytes=16_000),
    "fargate": Counts(resources=30, outputs=5, size_bytes=40_000),
    "auto": Counts(resources=30, outputs=5, size_bytes=40_000),  # the larger of the two
}
FUNCTION_TOPIC = Counts(resources=3, outputs=0, size_bytes=3_500)
FUNCTION_ALARMS = Counts(resources=4, outputs=0, size_bytes=6_000)
FUNCTION = Counts(resources=6, outputs=0, size_bytes=9_000)
# Where there are analytics: the shared stack's database, a cell's tables.
DATABASE = Counts(resources=1, outputs=0, size_bytes=1_000)
TABLES = Counts(resources=2, outputs=0, size_bytes=12_000)
NODE = {
    "sqs": Counts(resources=3, outputs=0, size_bytes=4_000),
    "http": Counts(resources=1, outputs=0, size_bytes=1_500),
}


@dataclass(frozen=True)
class CellSize:
    """What a cell is made of: its nodes' ways of delivery, and how many functions solve."""

    name: str
    deliveries: tuple[str, ...]
    functions: int
    analytics: bool = False
    has_topics: bool = False  # that call the functions
    has_alarms: bool = False  # of the functions

    def counts(self, controller: str) -> Counts:
        needed = CELL[controller]
        if self.analytics:
            needed = needed.plus(TABLES)
        if controller == "lambda":
            needed = needed.plus(FUNCTION, self.functions)
            if self.has_topics:
                needed = needed.plus(FUNCTION_TOPIC, self.functions)
            if self.has_alarms:
                needed = needed.plus(FUNCTION_ALARMS, self.functions)
        for delivery in self.deliveries:
            needed = needed.plus(NODE[delivery])
        return needed


def too_much_in_a_cell(controller: str, cell: CellSize) -> Iterator[str]:
    """Yield what a cell would have more of than AWS takes, each in a sentence."""
    nodes = len(cell.deliveries)
    counts = cell.counts(controller)
    # One for each node where nodes differ in their solver.
    notifications = nodes if cell.functions > 1 else 1
    for limit, needed in (
        (RESOURCES, counts.resources),
        (OUTPUTS, counts.outputs),
        (TEMPLATE_BYTES, counts.size_bytes),
        (TOPIC_FILTERS, nodes),
        (NOTIFICATIONS, notifications),
    ):
        if needed > limit.most:
            yield (
                f"put {nodes} nodes into the cell {cell.name!r}, which makes {needed} "
                f"{limit.what}, and AWS takes {limit.most}: spread them over more cells"
            )


def too_much_in_the_account(
    controller: str, cells: int, nodes: int, functions: int, reserved_concurrency: int | None
) -> Iterator[tuple[str, str]]:
    """Yield what all cells together would have more of than a usual account may have: the key of
    the stack's file that makes it, and a sentence.

    Args:
        functions: of all cells together.
    """
    networks = cells if controller == "fargate" else 0
    for limit, needed in (
        (STACKS, cells + 1),
        (BUCKETS, 2 * cells),
        (ACCOUNT_FILTERS, nodes),
        (VPCS, networks + 1 if networks else 0),
    ):
        if needed > limit.most:
            yield (
                "nodes",
                f"({nodes} in {cells} cells) make {needed} {limit.what}, and AWS allows "
                f"{limit.most} unless you have asked for more",
            )
    reserved = functions * (reserved_concurrency or 0)
    room = CONCURRENCY.most - UNRESERVED_CONCURRENCY
    if reserved > room:
        yield (
            "reserved_concurrency",
            f"({reserved_concurrency}) is reserved by each of {functions} functions, {reserved} in "
            f"all, and of {CONCURRENCY.most} {CONCURRENCY.what} {room} can be reserved",
        )
