"""What an operator chooses about the stack: one TOML file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from infra.costs.workload import MOST_CYCLES_PER_DAY, MOST_RETENTION_DAYS
from infra.node_names import role_name
from infra.outputs import node_outputs
from infra.template_limits import excess
from solver_lambda.documents.keys import NODE_PATTERN, SERVER_PATTERN
from solver_lambda.documents.planning_settings import METHODS
from solver_lambda.documents.reader import DocumentError, Fields, shown

CONTROLLERS = ("auto", "lambda", "fargate", "embedded")
DELIVERIES = ("sqs", "http")
# With "-observations-", account and region the name of a bucket has 63 characters at most.
NAME_PATTERN = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
# S3 keeps these for itself
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html).
RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
# CloudWatch Logs takes only these.
LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827)
ROLE_NAME_CHARACTERS = 64
LONGEST_REGION = "ap-southeast-1"


@dataclass(frozen=True)
class Node:
    """One machine with Redis servers.

    Attributes:
        name: also in its S3 keys.
        servers: whose teams get a role to write their settings with.
        delivery: ``sqs``: plans wait in the node's queue, and the node only makes outbound calls;
            ``http``: SNS posts them to ``public_url``.
        public_url: of the node's listener, http or https; or empty.
        solver: ``dirichlet`` or ``hill_climbing``: a function of its own that searches with it,
            as the thesis has two; ``auto``: the function that chooses by the number of servers.
    """

    name: str
    servers: tuple[str, ...] = ()
    delivery: str = "sqs"
    public_url: str = ""
    solver: str = "auto"


@dataclass(frozen=True)
class Configuration:
    """The stack.

    Attributes:
        name: prefix of the names of everything in it, so that an account can hold several.
        controller: who makes plans: a function, a Fargate task, the nodes themselves
            (``embedded``), or ``auto``, the cheaper of the first two by ``infra.costs``.
        cycles_per_day: observations of each node, by which ``auto`` estimates costs.
        nodes: that share the stack.
        retention_days: how long observations and plans are kept; six months by default.
        log_retention_days: one of the values that CloudWatch Logs takes.
        reserved_concurrency: of the function; ``None``: what the account has.
    """

    name: str
    nodes: tuple[Node, ...]
    controller: str = "lambda"
    cycles_per_day: int = 24
    retention_days: int = 180
    log_retention_days: int = 180
    reserved_concurrency: int | None = None


def read_configuration(path: Path) -> Configuration:
    """Read and check the file.

    Raises:
        DocumentError: with the key and value at fault.
        OSError: it cannot be read.
    """
    try:
        table = tomllib.loads(path.read_text())
    except ValueError as error:
        raise DocumentError(f"{path}: not a TOML document: {error}") from error
    return _configuration(Fields(table, str(path)))


def _configuration(fields: Fields) -> Configuration:
    log_retention_days = fields.integer("log_retention_days", 180)
    if log_retention_days not in LOG_RETENTION_DAYS:
        allowed = ", ".join(map(str, LOG_RETENTION_DAYS))
        raise fields.refuse("log_retention_days", f"must be one of {allowed}")
    nodes = fields.table("nodes")
    if not nodes.names():
        raise fields.refuse("nodes", "must be a table with one line for each node")
    for name in nodes.names():
        if not NODE_PATTERN.fullmatch(name):
            raise nodes.refuse(
                name, f"is not the name of a node: it must match {NODE_PATTERN.pattern}"
            )
    configuration = Configuration(
        name=_stack_name(fields),
        controller=fields.text("controller", "lambda", CONTROLLERS),
        cycles_per_day=fields.integer("cycles_per_day", 24, low=1, high=MOST_CYCLES_PER_DAY),
        retention_days=fields.integer("retention_days", 180, low=1, high=MOST_RETENTION_DAYS),
        log_retention_days=log_retention_days,
        reserved_concurrency=(
            fields.integer("reserved_concurrency", low=1)
            if fields.has("reserved_concurrency")
            else None
        ),
        nodes=tuple(_node(name, nodes.table(name)) for name in nodes.names()),
    )
    fields.done()
    _check_names(nodes, configuration)
    _check_size(fields, nodes, configuration)
    return configuration


def _stack_name(fields: Fields) -> str:
    name = fields.text("name", "spreds")
    if not NAME_PATTERN.fullmatch(name):
        raise fields.refuse("name", f"must match {NAME_PATTERN.pattern}, not {name!r}")
    for prefix in RESERVED_PREFIXES:
        if f"{name}-".startswith(prefix):
            raise fields.refuse("name", f"must not start like S3's own {prefix!r}: {name!r}")
    return name


def _node(name: str, fields: Fields) -> Node:
    node = Node(
        name=name,
        servers=_servers(fields),
        delivery=fields.text("delivery", "sqs", DELIVERIES),
        public_url=fields.text("public_url") if fields.has("public_url") else "",
        solver=fields.text("solver", "auto", METHODS),
    )
    fields.done()
    if (node.delivery == "http") != bool(node.public_url):
        raise fields.refuse("public_url", 'goes with delivery = "http", and only with it')
    if node.public_url and not re.match(r"https?://[^/]+", node.public_url):
        raise fields.refuse("public_url", f"must be a URL, not {node.public_url!r}")
    return node


def _servers(fields: Fields) -> tuple[str, ...]:
    names = fields.value("servers", [])
    if not isinstance(names, list):
        raise fields.refuse("servers", f"must be a list of names, not {shown(names)}")
    for name in names:
        if not isinstance(name, str) or not SERVER_PATTERN.fullmatch(name):
            raise fields.refuse(
                "servers", f"must match {SERVER_PATTERN.pattern}, not {shown(name)}"
            )
    fields.check_distinct("servers", names)
    return tuple(names)


def _check_names(nodes: Fields, configuration: Configuration) -> None:
    """Refuse names whose roles and outputs cannot be made, or would belong to two nodes."""
    owners: dict[str, str] = {}
    for node in configuration.nodes:
        role = role_name(configuration.name, node.name, LONGEST_REGION)
        if len(role) > ROLE_NAME_CHARACTERS:
            raise nodes.refuse(
                node.name,
                f"is too long: its role would be {role}, and IAM takes "
                f"{ROLE_NAME_CHARACTERS} characters, not {len(role)}",
            )
        for output, server in node_outputs(node.name, node.delivery, node.servers):
            owner = node.name + (f".servers {server!r}" if server else "")
            if output in owners:
                raise nodes.refuse(
                    owner,
                    f"and {nodes.where(owners[output])} would both give the output {output}: "
                    "rename one",
                )
            owners[output] = owner


def _check_size(fields: Fields, nodes: Fields, configuration: Configuration) -> None:
    """Refuse what does not go together, or is more than one stack may have."""
    for node in configuration.nodes:
        if node.solver != "auto" and configuration.controller != "lambda":
            raise nodes.refuse(f"{node.name}.solver", 'goes with controller = "lambda"')
    too_much = excess(
        configuration.controller,
        functions=len({node.solver for node in configuration.nodes}),
        deliveries=[node.delivery for node in configuration.nodes],
        servers=sum(len(node.servers) for node in configuration.nodes),
    )
    if too_much:
        raise fields.refuse("nodes", too_much)
