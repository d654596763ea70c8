"""What an operator chooses about the stack: one TOML file."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.costs.workload import MOST_CYCLES_PER_DAY, MOST_RETENTION_DAYS
from infra.node_names import role_name
from infra.outputs import node_outputs
from infra.template_limits import excess

CONTROLLERS = ("auto", "lambda", "fargate", "embedded")
DELIVERIES = ("sqs", "http")
SOLVERS = ("auto", "dirichlet", "hill_climbing")
# With "-observations-", account and region the name of a bucket has 63 characters at most.
NAME_PATTERN = re.compile(r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
# S3 keeps these for itself
# (https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html).
RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
NODE_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
SERVER_PATTERN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
# CloudWatch Logs takes only these.
LOG_RETENTION_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827)
ROLE_NAME_CHARACTERS = 64
LONGEST_REGION = "ap-southeast-1"


class ConfigurationError(ValueError):
    """The file breaks a rule; the message names the file, the key and the value."""


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
        cycles_per_day: observations of each node, for ``auto`` to count with.
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
        ConfigurationError: with the key and value at fault.
        OSError: it cannot be read.
    """
    try:
        table = tomllib.loads(path.read_text())
    except ValueError as error:
        raise ConfigurationError(f"{path}: not a TOML document: {error}") from error
    return _Checker(str(path)).configuration(table)


class _Checker:
    def __init__(self, source: str) -> None:
        self._source = source

    def _refuse(self, key: str, why: str) -> ConfigurationError:
        return ConfigurationError(f"{self._source}: {key} {why}")

    def _known(self, table: dict[str, Any], known: Collection[str], path: str = "") -> None:
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise self._refuse(path + key, f"is not a known key{hint}")

    def _count(self, table: dict[str, Any], key: str, default: int, most: int | None = None) -> int:
        value = table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._refuse(key, f"must be a whole number of at least 1, not {value!r}")
        if most is not None and value > most:
            raise self._refuse(key, f"must be at most {most:,}, not {value}")
        return value

    def _choice(self, key: str, value: object, choices: tuple[str, ...]) -> str:
        if not isinstance(value, str) or value not in choices:
            raise self._refuse(key, f"must be one of {', '.join(choices)}, not {value!r}")
        return value

    def _name(self, key: str, value: object, pattern: re.Pattern[str]) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise self._refuse(key, f"must match {pattern.pattern}, not {value!r}")
        return value

    def configuration(self, table: dict[str, Any]) -> Configuration:
        self._known(table, Configuration.__dataclass_fields__)
        nodes = table.get("nodes")
        if not isinstance(nodes, dict) or not nodes:
            raise self._refuse("nodes", "must be a table with one line for each node")
        log_retention_days = self._count(table, "log_retention_days", 180)
        if log_retention_days not in LOG_RETENTION_DAYS:
            allowed = ", ".join(map(str, LOG_RETENTION_DAYS))
            raise self._refuse("log_retention_days", f"must be one of {allowed}")
        name = self._name("name", table.get("name", "spreds"), NAME_PATTERN)
        for prefix in RESERVED_PREFIXES:
            if f"{name}-".startswith(prefix):
                raise self._refuse("name", f"must not start like S3's own {prefix!r}: {name!r}")
        made = tuple(self._node(node, line) for node, line in nodes.items())
        self._distinct(name, made)
        controller = self._choice("controller", table.get("controller", "lambda"), CONTROLLERS)
        for node in made:
            if node.solver != "auto" and controller != "lambda":
                raise self._refuse(f"nodes.{node.name}.solver", 'goes with controller = "lambda"')
        too_much = excess(
            controller,
            functions=len({node.solver for node in made}),
            deliveries=[node.delivery for node in made],
            servers=sum(len(node.servers) for node in made),
        )
        if too_much:
            raise self._refuse("nodes", too_much)
        return Configuration(
            name=name,
            controller=controller,
            cycles_per_day=self._count(table, "cycles_per_day", 24, MOST_CYCLES_PER_DAY),
            retention_days=self._count(table, "retention_days", 180, MOST_RETENTION_DAYS),
            log_retention_days=log_retention_days,
            reserved_concurrency=(
                self._count(table, "reserved_concurrency", 1)
                if "reserved_concurrency" in table
                else None
            ),
            nodes=made,
        )

    def _distinct(self, stack: str, nodes: tuple[Node, ...]) -> None:
        owners: dict[str, str] = {}
        for node in nodes:
            role = role_name(stack, node.name, LONGEST_REGION)
            if len(role) > ROLE_NAME_CHARACTERS:
                raise self._refuse(
                    f"nodes.{node.name}",
                    f"is too long: its role would be {role}, and IAM takes "
                    f"{ROLE_NAME_CHARACTERS} characters, not {len(role)}",
                )
            for output, server in node_outputs(node.name, node.delivery, node.servers):
                owner = f"nodes.{node.name}" + (f".servers {server!r}" if server else "")
                if output in owners:
                    raise self._refuse(
                        owner,
                        f"and {owners[output]} would both give the output {output}: rename one",
                    )
                owners[output] = owner

    def _node(self, name: str, line: object) -> Node:
        path = f"nodes.{name}"
        self._name("a node's name", name, NODE_PATTERN)
        if not isinstance(line, dict):
            raise self._refuse(path, f"must be a table, not {line!r}")
        self._known(line, ("servers", "delivery", "public_url", "solver"), f"{path}.")
        servers = self._servers(f"{path}.servers", line.get("servers", []))
        delivery = self._choice(f"{path}.delivery", line.get("delivery", "sqs"), DELIVERIES)
        public_url = line.get("public_url", "")
        if (delivery == "http") != bool(public_url):
            raise self._refuse(
                f"{path}.public_url", 'goes with delivery = "http", and only with it'
            )
        if public_url and not re.match(r"https?://[^/]+", str(public_url)):
            raise self._refuse(f"{path}.public_url", f"must be a URL, not {public_url!r}")
        return Node(
            name=name,
            servers=servers,
            delivery=delivery,
            public_url=public_url,
            solver=self._choice(f"{path}.solver", line.get("solver", "auto"), SOLVERS),
        )

    def _servers(self, key: str, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise self._refuse(key, f"must be a list of names, not {value!r}")
        names = tuple(self._name(key, name, SERVER_PATTERN) for name in value)
        for name in names:
            if names.count(name) > 1:
                raise self._refuse(key, f"has {name!r} twice")
        return names
