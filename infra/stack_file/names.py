"""Names and ARNs by rule: whoever knows the stack's file, account and region knows them all.

So no stack has to tell another one anything, nothing has to be looked up, and there is no cycle of
references. The installation's own name has no hyphen (`infra/stack_file/configuration.py`). So
``NAME-`` is the beginning of no other installation's names; a node's name follows ``_`` or ``.``
and cannot be taken for a part of a stack's.
"""

from __future__ import annotations

from dataclasses import dataclass

# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html, and the suffix of addresses.
PARTITIONS = {"cn-": ("aws-cn", "amazonaws.com.cn"), "us-gov-": ("aws-us-gov", "amazonaws.com")}
USUAL_PARTITION = ("aws", "amazonaws.com")
NODE_TAG, SERVER_TAG = "spreds-node", "spreds-server"


@dataclass(frozen=True)
class Place:
    """An account in a region: as they are called, or what CloudFormation replaces by that."""

    account: str
    region: str
    partition: str
    url_suffix: str

    def bucket(self, stack: str, documents: str) -> str:
        """Return the name of a cell's bucket; account and region make it unique in the world."""
        return f"{stack}-{documents}-{self.account}-{self.region}"

    def bucket_arn(self, bucket: str) -> str:
        return f"arn:{self.partition}:s3:::{bucket}"

    def objects_arn(self, bucket: str, *path: str) -> str:
        """Return the ARN of all objects under ``path`` of the bucket named ``bucket``."""
        return "/".join((self.bucket_arn(bucket), *path, "*"))

    def regional_arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource of this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def iam_arn(self, resource: str) -> str:
        return f"arn:{self.partition}:iam::{self.account}:{resource}"

    def queue_url(self, queue: str, endpoint_url: str | None = None) -> str:
        """Return the address of a queue, at AWS or at an emulator."""
        host = endpoint_url or f"https://sqs.{self.region}.{self.url_suffix}"
        return f"{host.rstrip('/')}/{self.account}/{queue}"


def place(account: str, region: str) -> Place:
    """The place with the partition that the region lies in."""
    for prefix, (partition, suffix) in PARTITIONS.items():
        if region.startswith(prefix):
            return Place(account, region, partition, suffix)
    return Place(account, region, *USUAL_PARTITION)


def account(text: str) -> str:
    """Return an account's number, checked.

    Raises:
        ValueError: it has not twelve digits.
    """
    if not (len(text) == 12 and text.isascii() and text.isdigit()):
        raise ValueError(f"an AWS account has 12 digits, and {text!r} is none")
    return text


def cell_stack(name: str, cell: str) -> str:
    """Return the name of a cell's CloudFormation stack, with which all names in it begin."""
    return f"{name}-{cell}"


def any_cell(name: str) -> str:
    """Return what stands for every cell's stack in a policy."""
    return cell_stack(name, "*")


def plans_topic(stack: str) -> str:
    return f"{stack}-plans"


def observations_topic(stack: str, method: str = "auto") -> str:
    """Name the topic that calls the cell's function for ``method``, where topics do."""
    return f"{stack}-observations{_suffix(method)}"


def solver(stack: str, method: str = "auto") -> str:
    """Name a cell's function, task or cluster; one that runs a single method has its name."""
    return f"{stack}-solver{_suffix(method)}"


def _suffix(method: str) -> str:
    return "" if method == "auto" else f"-{method.replace('_', '-')}"


def alarms_topic(name: str) -> str:
    return f"{name}-alarms"


def undelivered_queue(name: str) -> str:
    return f"{name}-undelivered-plans"


def refused_queue(name: str) -> str:
    return f"{name}-refused-observations"


def nodes_policy(name: str, region: str) -> str:
    """Return the name of the nodes' managed policy; IAM shares its names among all regions."""
    return f"{name}-nodes-{region}"


def teams_policy(name: str, region: str) -> str:
    return f"{name}-teams-{region}"


def node_queue(name: str, node: str) -> str:
    """Return the name of a node's queue; SQS does not allow dots."""
    return f"{name}_{node}"


def node_role(name: str, node: str, region: str) -> str:
    """Return the name that `infra.roles` proposes for a node's role and instance profile."""
    return f"{name}.{node}.{region}"


def team_role(name: str, node: str, server: str, region: str) -> str:
    return f"{name}.{node}.{server}.{region}"
