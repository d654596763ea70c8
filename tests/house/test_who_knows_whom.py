"""The house by its imports: who may know whom, and how large a room may be."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOPS = ("solver_lambda", "sidecar", "infra", "workloads")
# Top folders that each may know beside itself.
MAY_KNOW = {
    "solver_lambda": set(),
    "sidecar": {"solver_lambda"},
    "infra": {"solver_lambda"},
    "workloads": {"solver_lambda", "sidecar"},
}
# Of the function's documents, those that need numpy.
WITH_NUMPY = {
    "solver_lambda.documents.curve",
    "solver_lambda.documents.observation",
}
C_SOURCES = sorted((ROOT / "redis_patch").glob("*/*.[ch]"))
MOST_LINES_OF_A_FILE = 500
MOST_LINES_OF_A_FUNCTION = 50  # fewer, that is
# What a benchmark or the demonstration does, it does once from top to bottom. Tests may be as long
# as they need.
WITH_LONG_FUNCTIONS = {"workloads"}


def sources() -> Iterator[Path]:
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*.py")):
            if not {"node_modules", "cdk.out"} & set(path.parts):
                yield path


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_by(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.partition(".")[0] in TOPS}


def room_of(module: str) -> str:
    """The folder; a file at the root of a top folder is a room of its own."""
    parts = module.split(".")
    if (ROOT.joinpath(*parts)).is_dir() or len(parts) < 3:
        return module
    return ".".join(parts[:-1])


@cache
def modules() -> dict[str, set[str]]:
    """Return each module with those that it imports."""
    return {module_of(path): imported_by(path) for path in sources()}


@pytest.mark.parametrize("top", TOPS)
def test_a_top_folder_knows_only_whom_it_may(top: str) -> None:
    for module, imported in modules().items():
        if module.partition(".")[0] == top:
            assert {name.partition(".")[0] for name in imported} <= {top, *MAY_KNOW[top]}, module


def test_infra_knows_of_the_function_only_its_documents_and_needs_no_numpy() -> None:
    for module, imported in modules().items():
        if module.startswith("infra"):
            known = {name for name in imported if name.startswith("solver_lambda")}
            assert all(name.startswith("solver_lambda.documents.") for name in known), module
            assert not known & WITH_NUMPY, module


@pytest.mark.parametrize("of", ["modules", "folders"])
def test_there_is_no_circle(of: str) -> None:
    edges: dict[str, set[str]] = defaultdict(set)
    for module, imported in modules().items():
        for name in imported:
            ends = (module, name) if of == "modules" else (room_of(module), room_of(name))
            if ends[0] != ends[1]:
                edges[ends[0]].add(ends[1])
    assert_no_circle(edges)


def assert_no_circle(edges: dict[str, set[str]]) -> None:
    for start in list(edges):
        seen: set[str] = set()
        left = [start]
        while left:
            for name in edges.get(left.pop(), set()) - seen:
                assert name != start, f"{start} is in a circle"
                seen.add(name)
                left.append(name)


def test_no_file_and_no_function_is_too_long() -> None:
    for path in sources():
        lines = path.read_text().splitlines()
        assert len(lines) <= MOST_LINES_OF_A_FILE, path
        if path.relative_to(ROOT).parts[0] in WITH_LONG_FUNCTIONS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length < MOST_LINES_OF_A_FUNCTION, f"{path}: {node.name} has {length} lines"


def test_what_a_constant_means_stands_above_it() -> None:
    """As a comment: of a text below it nobody sees whether it is about the next one."""
    for path in sources():
        body = ast.parse(path.read_text()).body
        for one, after in pairwise(body):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            assert not (is_text and isinstance(one, ast.Assign | ast.AnnAssign)), (path, one.lineno)


def test_there_is_no_circle_of_includes_in_the_sampler() -> None:
    """A .c and its .h are one part."""
    edges: dict[str, set[str]] = defaultdict(set)
    for path in C_SOURCES:
        for name in re.findall(r'^#include "(\w+)\.h"', path.read_text(), re.MULTILINE):
            if name != path.stem:
                edges[path.stem].add(name)
    assert_no_circle(edges)


def test_parts_of_the_sampler_share_no_variable() -> None:
    """But for those of the glue in a patched server, whose inlined calls need them."""
    for path in C_SOURCES:
        if path.name != "spreds.h":
            assert not re.findall(r"^extern .*", path.read_text(), re.MULTILINE), path


@pytest.mark.parametrize("path", C_SOURCES, ids=lambda p: p.name)
def test_no_file_of_the_sampler_is_too_long(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES_OF_A_FILE
