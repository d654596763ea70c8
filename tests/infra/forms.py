"""The forms that an installation takes, as changes to the configuration that comes with it."""

from __future__ import annotations

from typing import Any

from infra.stack_file.account import Account
from infra.stack_file.configured_nodes import Node

KEY_ARN = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef"
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
    "what an organisation demands": {
        "cell_alarms": True,
        "account": Account(
            tags=(("cost-center", "4711"), ("owner", "caches")),
            permissions_boundary="developers",
            documents_key_arn=KEY_ARN,
            traces=True,
        ),
    },
    "its key, with a task": {
        "controller": "fargate",
        "account": Account(documents_key_arn=KEY_ARN),
    },
    "two cells": {"nodes": (Node("a"), Node("b", cell="second"))},
}
