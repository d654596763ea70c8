"""The stacks of an installation, synthesised in this process, once for each configuration."""

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
from infra.stack_file.configuration import Configuration, read_configuration
from infra.stacks.function_bundle import SOURCE
from infra.stacks.installation import add_stacks

# For the library's own use of Node, which lies beside Python where the machine had none.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))

CLOUD_CONTROLLERS = ("lambda", "fargate")
CONTROLLERS = (*CLOUD_CONTROLLERS, "embedded")


@dataclass(frozen=True)
class Stack:
    """A stack's template, and where it lies."""

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


@dataclass(frozen=True)
class Synthesised:
    """All stacks by their names, and what they were made of."""

    configuration: Configuration
    folder: Path
    stacks: dict[str, Stack]

    @property
    def shared(self) -> Stack:
        return self.stacks[self.configuration.name]

    @property
    def cell(self) -> Stack:
        """Return the only cell's stack."""
        (cell,) = self.configuration.cells
        return self.stacks[cell.stack]


@pytest.fixture(scope="session")
def configuration() -> Configuration:
    return read_configuration(DEFAULT)


@pytest.fixture(scope="session")
def synthesise(
    configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Synthesised]:
    made: dict[Configuration, Synthesised] = {}

    def of(changed: Configuration | None = None, **changes: Any) -> Synthesised:
        changed = replace(changed or configuration, **changes)
        if changed not in made:
            folder = tmp_path_factory.mktemp("cdk.out")
            app = App(outdir=str(folder), analytics_reporting=False)
            stacks = add_stacks(app, changed, lambda: aws_lambda.Code.from_asset(str(SOURCE)))
            app.synth()
            paths = {s.stack_name: folder / f"{s.stack_name}.template.json" for s in stacks}
            made[changed] = Synthesised(
                changed,
                folder,
                {name: Stack(path, json.loads(path.read_text())) for name, path in paths.items()},
            )
        return made[changed]

    return of
