"""The stack, synthesised in this process, once for each controller."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, aws_lambda

from infra.app import DEFAULT
from infra.configuration import Configuration, read_configuration
from infra.function_bundle import SOURCE
from infra.review_exceptions import review
from infra.stack import SpredsStack

# For the library's own use of Node, which lies beside Python where the machine had none.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))

CLOUD_CONTROLLERS = ("lambda", "fargate")
CONTROLLERS = (*CLOUD_CONTROLLERS, "embedded")


@dataclass(frozen=True)
class Synthesised:
    """A template, what it was made of, and where it lies."""

    configuration: Configuration
    path: Path
    template: dict[str, Any]

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Properties of the resources of ``kind`` (without ``AWS::``), by logical id."""
        return {
            logical_id: resource.get("Properties", {})
            for logical_id, resource in self.template["Resources"].items()
            if resource["Type"] == f"AWS::{kind}"
        }

    def one(self, kind: str) -> dict[str, Any]:
        (properties,) = self.of_type(kind).values()
        return properties


@pytest.fixture(scope="session")
def configuration() -> Configuration:
    return read_configuration(DEFAULT)


@pytest.fixture(scope="session")
def synthesise(
    configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Synthesised]:
    made: dict[Configuration, Synthesised] = {}

    def of(**changes: Any) -> Synthesised:
        changed = replace(configuration, **changes)
        if changed not in made:
            folder = tmp_path_factory.mktemp("cdk.out")
            app = App(outdir=str(folder), analytics_reporting=False)
            stack = SpredsStack(
                app,
                "spreds",
                configuration=changed,
                function_code=aws_lambda.Code.from_asset(str(SOURCE)),
            )
            review(app, stack)
            app.synth()
            path = folder / "spreds.template.json"
            made[changed] = Synthesised(changed, path, json.loads(path.read_text()))
        return made[changed]

    return of
