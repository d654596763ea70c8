"""All that is fuzzed."""

from __future__ import annotations

from collections.abc import Callable

from workloads.experiment.fuzz.delivery_parsers import delivery_parsers
from workloads.experiment.fuzz.document_parsers import document_parsers, node_parser
from workloads.experiment.fuzz.fuzzing import Parser
from workloads.experiment.fuzz.server_parsers import server_parsers
from workloads.experiment.fuzz.web_parsers import web_parsers

_MAKERS: tuple[Callable[[], list[Parser]], ...] = (
    document_parsers,
    delivery_parsers,
    server_parsers,
    web_parsers,
    lambda: [node_parser()],
)


def parsers() -> dict[str, Parser]:
    """By name."""
    return {parser.name: parser for make in _MAKERS for parser in make()}
