"""A configuration with a mistake is refused with one sentence that names it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.app import DEFAULT
from infra.stack_file.cells import Named, named_by
from infra.stack_file.configuration import Configuration, read_configuration
from infra.stack_file.configured_nodes import Node
from infra.stacks.chosen_controller import chosen_controller
from solver_lambda.documents.reader import DocumentError


def read(tmp_path: Path, text: str) -> Configuration:
    path = tmp_path / "stack.toml"
    path.write_text(text)
    return read_configuration(path)


NODES = "[nodes]\na = {}\n"
HTTP = 'delivery = "http", public_url = '


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("retention_day = 3\n" + NODES, "retention_day is not a known key; did you mean 'retent"),
        ("retention_days = 0\n" + NODES, "retention_days must be at least 1, not 0"),
        ("retention_days = true\n" + NODES, "retention_days must be a whole number"),
        (
            "retention_days = 99999999999\n" + NODES,
            "retention_days must be at most 36500, not 99999999999",
        ),
        ("cycles_per_day = 100000\n" + NODES, "cycles_per_day must be at most 10000, not 100000"),
        ('name = "sthree"\n' + NODES, "nodes.a is in sthree-main, which must not start like S3's"),
        (
            'name = "amzn"\n[nodes]\na = { cell = "s3-demo-a" }\n',
            "nodes.a is in amzn-s3-demo-a, which must not start like S3's own 'amzn-s3-demo-'",
        ),
        ('name = "a-b"\n' + NODES, "name must match [a-z][a-z0-9]{0,16}, not 'a-b'"),
        ("log_retention_days = 100\n" + NODES, "log_retention_days must be one of 1, 3, 5"),
        ('controller = "lamda"\n' + NODES, "controller must be one of auto, lambda, fargate"),
        ('name = "Spreds"\n' + NODES, "name must match"),
        ("", "nodes is missing"),
        ("nodes = {}", "nodes must have a line"),
        ("[nodes]\nA = {}\n", "nodes.A names no node: 'A' does not match"),
        (
            'controller = "auto"\n[nodes]\na = { solver = "dirichlet" }\n',
            'nodes.a.solver goes with controller = "lambda"',
        ),
        (
            'topics = "two"\ncontroller = "fargate"\n' + NODES,
            'topics "two" goes with controller = "lambda"',
        ),
        ('[nodes]\na = { solver = "best" }\n', "nodes.a.solver must be one of auto, dirichlet"),
        ('[nodes]\na = { delivery = "mail" }\n', "nodes.a.delivery must be one of sqs, http"),
        ('[nodes]\na = { delivery = "http" }\n', "nodes.a.public_url goes with"),
        ('[nodes]\na = { public_url = "https://x" }\n', "nodes.a.public_url goes with"),
        ('[nodes]\na = { delivery = "http", public_url = "x" }\n', "must be a URL"),
        ("[nodes", "not a TOML document"),
        (
            '[nodes]\na = { servers = ["x"] }\n',
            "nodes.a.servers belongs here no longer: give a team",
        ),
        (
            f"name = 'abcdefgh'\n[nodes]\n{'n' * 63} = {{ cell = 'a-long-cell-x' }}\n",
            "whose stack would be abcdefgh-a-long-cell-x, and of its name 20 characters fit",
        ),
        (
            f"name = 'abcdefghijklmnopq'\n[nodes]\n{'n' * 63} = {{ cell = 'a' }}\n",
            f"nodes.{'n' * 63} is too long: its queue would be abcdefghijklmnopq_{'n' * 63}, and "
            "AWS takes 80 characters in the name of an SQS queue, not 81",
        ),
        ('[nodes]\na = { cell = "A" }\n', "nodes.a.cell must match"),
        ('[nodes]\n"a-{1..2" = {}\n', "nodes.a-{1..2 is no pattern: one has two numbers"),
        ('[nodes]\n"a-{1..2}-{1..2}" = {}\n', "has more than one {..}"),
        ('[nodes]\n"a-{2..1}" = {}\n', "goes from 2 down to 1: write the smaller number first"),
        ('[nodes]\n"a-{01..100}" = {}\n', "has 01 and 100: give them the same number of digits"),
        (
            '[nodes]\n"a-{1..999999999}" = {}\n',
            "names 999999999 nodes, and 10000 may be in a stack",
        ),
        (
            '[nodes]\n"a-{001..250}" = {}\na-007 = {}\n',
            "nodes.a-007 names 'a-007', which nodes.a-{001..250} names as well",
        ),
        (
            '[nodes]\na-007 = {}\n"a-{001..250}" = {}\n',
            "nodes.a-{001..250} names 'a-007', which nodes.a-007 names as well",
        ),
        (
            "nodes_per_cell = 2\n[nodes]\na = {}\nb = {}\nc = {}\n",
            "nodes.c is one of 3 nodes in the cell 'main', and nodes_per_cell is 2: give some of",
        ),
        ("nodes_per_cell = 201\n" + NODES, "nodes_per_cell must be at most 200, not 201"),
        (
            f'[nodes]\na = {{ {HTTP}"https://x/" }}\nb = {{ {HTTP}"https://x/" }}\n',
            "nodes.b.public_url 'https://x/' is the address of 'a' in the same cell",
        ),
        (
            f'[nodes]\n"a-{{1..2}}" = {{ {HTTP}"https://a.example.com" }}\n',
            "nodes.a-{1..2}.public_url must have {node} where the name belongs",
        ),
        (
            'nodes_per_cell = 200\n[nodes]\n"a-{1..190}" = {}\n',
            "nodes put 190 nodes into the cell 'a-0', which makes 582 resources in a "
            "CloudFormation stack, and AWS takes 500: spread them over more cells",
        ),
        (
            'controller = "fargate"\nnodes_per_cell = 1\n[nodes]\n"a-{1..6}" = {}\n',
            "nodes (6 in 6 cells) make 7 networks in an account and region, and AWS allows 5",
        ),
        (
            'controller = "fargate"\ncell_alarms = true\n' + NODES,
            'cell_alarms goes with controller = "lambda"',
        ),
        (
            'controller = "embedded"\n[account]\ntraces = true\n' + NODES,
            'account.traces goes with controller = "lambda"',
        ),
        (
            "[account]\nboundary = 'developers'\n" + NODES,
            "account.boundary is not a known key",
        ),
        (
            "[account]\npermissions_boundary = 'a b'\n" + NODES,
            "account.permissions_boundary must be the name or the ARN of a managed policy, not 'a",
        ),
        (
            "[account]\npermissions_boundary = 'arn:aws:iam::1:policy/x'\n" + NODES,
            "account.permissions_boundary must be the name or the ARN of a managed policy",
        ),
        (
            "[account]\ndocuments_key = 'alias/ours'\n" + NODES,
            "account.documents_key must be the ARN of a key in KMS",
        ),
        (
            "[account.tags]\nspreds-node = 'x'\n" + NODES,
            "account.tags.spreds-node gives a role its rights, so nothing else may carry it",
        ),
        ("[account.tags]\n'aws:x' = 'x'\n" + NODES, "account.tags.aws:x is no tag: it must match"),
        ("[account.tags]\nx = 'a;b'\n" + NODES, "account.tags.x must match"),
        (
            "[account.tags]\n" + "".join(f"t{n} = 'x'\n" for n in range(41)) + NODES,
            "account.tags.t40 is one of 41 tags, and 40 may be",
        ),
        (
            "reserved_concurrency = 901\n" + NODES,
            "reserved_concurrency (901) is reserved by each of 1 functions, 901 in all",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(DocumentError, match=r"stack\.toml: ") as refused:
        read(tmp_path, text)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_node_is_one_line(tmp_path: Path) -> None:
    line = f'a = {{ {HTTP}"https://a.example.com" }}'
    made = read(tmp_path, f"[nodes]\n{line}\n")
    assert made.nodes == (Node("a", "http", "https://a.example.com"),)


def test_a_pattern_is_many_nodes(tmp_path: Path) -> None:
    made = read(tmp_path, f'[nodes]\n"c-{{08..11}}-eu" = {{ {HTTP}"https://{{node}}.com" }}\n')
    assert [(node.name, node.public_url) for node in made.nodes] == [
        ("c-08-eu", "https://c-08-eu.com"),
        ("c-09-eu", "https://c-09-eu.com"),
        ("c-10-eu", "https://c-10-eu.com"),
        ("c-11-eu", "https://c-11-eu.com"),
    ]


def test_nodes_are_cut_into_cells_by_their_number(tmp_path: Path) -> None:
    made = read(
        tmp_path,
        'nodes_per_cell = 10\n[nodes]\nsingle = {}\nshared = { cell = "cache-1" }\n'
        '"cache-{8..12}" = {}\n"db{5..15}x" = { cell = "data" }\n"{1..2}" = {}\n',
    )
    assert {cell.stack: [node.name for node in cell.nodes] for cell in made.cells} == {
        "spreds-main": ["single"],
        "spreds-cache-0": ["cache-8", "cache-9"],
        "spreds-cache-1": ["cache-10", "cache-11", "cache-12", "shared"],
        "spreds-data-0": [f"db{number}x" for number in range(5, 10)],
        "spreds-data-1": [f"db{number}x" for number in range(10, 16)],
        "spreds-n-0": ["1", "2"],
    }


@given(
    first=st.integers(0, 300),
    count=st.integers(1, 300),
    more=st.integers(1, 50),
    nodes_per_cell=st.integers(1, 60),
)
def test_a_longer_pattern_moves_no_node(
    first: int, count: int, more: int, nodes_per_cell: int
) -> None:
    def named(last: int) -> list[Named]:
        return list(named_by(f"a-{{{first}..{last}}}", "", nodes_per_cell, 1_000))

    before, after = named(first + count - 1), named(first + count - 1 + more)
    assert after[:count] == before
    members = Counter(one.cell for one in after)
    assert max(members.values()) <= nodes_per_cell
    # All cells but those at the ends are full.
    assert sum(size < nodes_per_cell for size in members.values()) <= 2


def test_the_most_cycles_leave_time_for_a_plan_of_the_most_servers(tmp_path: Path) -> None:
    text = 'controller = "auto"\ncycles_per_day = 10000\nservers_per_node = 192\n'
    made = read(tmp_path, text + NODES)
    assert chosen_controller(made) == "lambda"


def test_the_file_that_comes_with_the_stack_is_good() -> None:
    configuration = read_configuration(DEFAULT)
    assert configuration.retention_days == 180
    assert configuration.nodes
