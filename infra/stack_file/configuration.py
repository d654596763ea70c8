"""What an operator chooses about the installation: one TOML file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from infra.stack_file import limits, names
from infra.stack_file.account import Account, read_account
from infra.stack_file.configured_nodes import Node, read_nodes
from infra.stack_file.limits import MOST_CYCLES_PER_DAY, MOST_RETENTION_DAYS, MOST_SERVERS
from solver_lambda.documents.reader import DocumentError, Fields

CONTROLLERS = ("auto", "lambda", "fargate", "embedded")
TOPICS = ("one", "two")
# Without a hyphen, so that "NAME-" begins the names of no other installation in the account.
NAME_PATTERN = re.compile(r"[a-z][a-z0-9]{0,16}")
# With "-observations-", account and region the name of a bucket has 63 characters at most.
STACK_NAME_CHARACTERS = 20
# S3 keeps these for itself
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html).
RESERVED_PREFIXES = ("sthree-", "amzn-s3-demo-")
# CloudWatch Logs takes only these.
LOG_RETENTION_DAYS = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
NODES_PER_CELL = 40
ALARMS_OF_A_FUNCTION = 4  # where it has any: infra/stacks/alarms.py


@dataclass(frozen=True)
class Cell:
    """Nodes that share buckets, topic and solver; a CloudFormation stack.

    Attributes:
        name: without the installation's.
        stack: name of its stack, and the beginning of its resources' names.
    """

    name: str
    stack: str
    nodes: tuple[Node, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The solvers that its nodes ask for, each a function."""
        return tuple(sorted({node.solver for node in self.nodes}))


@dataclass(frozen=True)
class Configuration:
    """The installation: a stack that all share, and a stack for each cell.

    Attributes:
        name: with which all names begin, so that an account can hold several installations.
        controller: who makes plans: a function, a Fargate task, the nodes themselves
            (``embedded``), or ``auto``, the cheaper of the first two by ``infra.costs``.
        cycles_per_day, servers_per_node: observations and servers of each node, by which ``auto``
            estimates costs.
        nodes: in the order of the file.
        nodes_per_cell: at most.
        retention_days: how long observations and plans are kept; six months by default.
        log_retention_days: one of the values that CloudWatch Logs takes.
        reserved_concurrency: of each function; ``None``: what the account has.
        topics: ``one``: S3 calls the functions, and a topic tells nodes of plans; ``two``: each
            function has a topic as well, that S3 tells of observations and that calls it, as in the
            thesis.
        analytics: whether AWS Glue has tables over the documents, to be asked by Athena.
        cell_alarms: whether each function has alarms of its own.
        account: what the organisation demands.
        source: the file, for messages.
    """

    name: str
    nodes: tuple[Node, ...]
    controller: str = "lambda"
    cycles_per_day: int = 24
    servers_per_node: int = 3
    nodes_per_cell: int = NODES_PER_CELL
    retention_days: int = 180
    log_retention_days: int = 180
    reserved_concurrency: int | None = None
    topics: str = "one"
    analytics: bool = False
    cell_alarms: bool = False
    account: Account = field(default_factory=Account)
    source: str = field(default="the stack's file", compare=False)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Return the cells in the order of their names."""
        nodes = sorted(self.nodes, key=lambda node: (node.cell, node.name))
        return tuple(
            Cell(name, names.cell_stack(self.name, name), tuple(members))
            for name, members in groupby(nodes, key=lambda node: node.cell)
        )

    @property
    def alarms_of_cells(self) -> int:
        """Return how many alarms there are beside those that all cells share."""
        functions = sum(len(cell.methods) for cell in self.cells)
        return ALARMS_OF_A_FUNCTION * functions if self.cell_alarms else 0

    def cell_of(self, node: str) -> tuple[Cell, Node] | None:
        """A node by its name, with its cell."""
        members = ((cell, member) for cell in self.cells for member in cell.nodes)
        return next((found for found in members if found[1].name == node), None)


def read_configuration(path: Path) -> Configuration:
    """Read and check the file.

    Raises:
        DocumentError: with the key and value at fault.
        OSError: it cannot be read.
    """
    configuration = configuration_of(path.read_text(), str(path))
    if not configuration.nodes:
        raise DocumentError(f"{path}: nodes must have a line for each node or pattern")
    return configuration


def configuration_of(text: str, source: str) -> Configuration:
    """Check the text of such a file, in which there may be no nodes yet.

    Raises:
        DocumentError: with the key and value at fault.
    """
    try:
        table = tomllib.loads(text)
    except ValueError as error:
        raise DocumentError(f"{source}: not a TOML document: {error}") from error
    return _configuration(Fields(table, source))


def _configuration(fields: Fields) -> Configuration:
    log_retention_days = fields.integer("log_retention_days", 180)
    if log_retention_days not in LOG_RETENTION_DAYS:
        allowed = ", ".join(map(str, LOG_RETENTION_DAYS))
        raise fields.refuse("log_retention_days", f"must be one of {allowed}")
    nodes = fields.table("nodes")
    nodes_per_cell = fields.integer(
        "nodes_per_cell", NODES_PER_CELL, low=1, high=limits.TOPIC_FILTERS.most
    )
    configuration = Configuration(
        name=_name(fields),
        controller=fields.text("controller", "lambda", CONTROLLERS),
        cycles_per_day=fields.integer("cycles_per_day", 24, low=1, high=MOST_CYCLES_PER_DAY),
        servers_per_node=fields.integer("servers_per_node", 3, low=1, high=MOST_SERVERS),
        nodes_per_cell=nodes_per_cell,
        retention_days=fields.integer("retention_days", 180, low=1, high=MOST_RETENTION_DAYS),
        log_retention_days=log_retention_days,
        topics=fields.text("topics", "one", TOPICS),
        analytics=fields.boolean("analytics", False),
        cell_alarms=fields.boolean("cell_alarms", False),
        account=read_account(fields.table("account", {})),
        reserved_concurrency=(
            fields.integer("reserved_concurrency", low=1)
            if fields.has("reserved_concurrency")
            else None
        ),
        nodes=tuple(read_nodes(nodes, nodes_per_cell)),
        source=fields.source,
    )
    fields.done()
    _check_cells(nodes, configuration)
    _check_limits(fields, configuration)
    return configuration


def _name(fields: Fields) -> str:
    name = fields.text("name", "spreds")
    if not NAME_PATTERN.fullmatch(name):
        raise fields.refuse("name", f"must match {NAME_PATTERN.pattern}, not {name!r}")
    return name


def _check_cells(nodes: Fields, configuration: Configuration) -> None:
    """Refuse names that AWS would not take, and cells with too many nodes."""
    for cell in configuration.cells:
        first = cell.nodes[0].name
        if len(cell.stack) > STACK_NAME_CHARACTERS:
            raise nodes.refuse(
                first,
                f"is in the cell {cell.name!r}, whose stack would be {cell.stack}, and of its name "
                f"{STACK_NAME_CHARACTERS} characters fit into a bucket's, not {len(cell.stack)}: "
                "give its line a shorter cell = ",
            )
        for prefix in RESERVED_PREFIXES:
            if f"{cell.stack}-".startswith(prefix):
                raise nodes.refuse(
                    first, f"is in {cell.stack}, which must not start like S3's own {prefix!r}"
                )
        if len(cell.nodes) > configuration.nodes_per_cell:
            raise nodes.refuse(
                cell.nodes[-1].name,
                f"is one of {len(cell.nodes)} nodes in the cell {cell.name!r}, and nodes_per_cell "
                f"is {configuration.nodes_per_cell}: give some of them another cell = ",
            )
    for node in configuration.nodes:
        queue = names.node_queue(configuration.name, node.name)
        if len(queue) > limits.QUEUE_NAME.most:
            raise nodes.refuse(
                node.name,
                f"is too long: its queue would be {queue}, and AWS takes "
                f"{limits.QUEUE_NAME.most} {limits.QUEUE_NAME.what}, not {len(queue)}",
            )
        if node.solver != "auto" and configuration.controller != "lambda":
            raise nodes.refuse(f"{node.name}.solver", 'goes with controller = "lambda"')


def _check_limits(fields: Fields, configuration: Configuration) -> None:
    """Refuse what does not go together, or is more than AWS takes."""
    if configuration.topics == "two" and configuration.controller != "lambda":
        raise fields.refuse("topics", '"two" goes with controller = "lambda"')
    if configuration.cell_alarms and configuration.controller != "lambda":
        raise fields.refuse("cell_alarms", 'goes with controller = "lambda"')
    if configuration.account.traces and configuration.controller != "lambda":
        raise fields.refuse("account.traces", 'goes with controller = "lambda"')
    functions = 0
    for cell in configuration.cells:
        size = limits.CellSize(
            cell.name,
            tuple(node.delivery for node in cell.nodes),
            len(cell.methods),
            configuration.analytics,
            configuration.topics == "two",
            configuration.cell_alarms,
        )
        functions += size.functions
        for sentence in limits.too_much_in_a_cell(configuration.controller, size):
            raise fields.refuse("nodes", sentence)
    for key, sentence in limits.too_much_in_the_account(
        configuration.controller,
        len(configuration.cells),
        len(configuration.nodes),
        functions,
        configuration.reserved_concurrency,
    ):
        raise fields.refuse(key, sentence)
