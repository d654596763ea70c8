"""The forms that an installation takes, as changes to the configuration that comes with it."""

from __future__ import annotations

from typing import Any

from infra.configured_nodes import Node

SOLVERS = "lambda, three functions"
FORMS: dict[str, dict[str, Any]] = {
    "lambda": {},
    SOLVERS: {
        "nodes": (Node("a", solver="dirichlet"), Node("b", solver="hill_climbing"), Node("c"))
    },
    "topics": {
        "topics": "two",
        "nodes": (Node("a", solver="dirichlet"), Node("b", solver="hill_climbing")),
    },
    "fargate": {"controller": "fargate"},
    "embedded": {"controller": "embedded"},
    "https": {"nodes": (Node("edge", "http", "https://edge.example.com/plans"),)},
    "two cells": {"nodes": (Node("a"), Node("b", cell="second"))},
}
