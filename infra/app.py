"""The CDK application: `cdk synth`, `cdk diff`, `cdk deploy --all` from this folder."""

from __future__ import annotations

import sys
from pathlib import Path

from aws_cdk import App

from infra.stack_file.configuration import read_configuration
from infra.stacks.function_bundle import bundled_code, target_platform
from infra.stacks.installation import add_stacks

DEFAULT = Path(__file__).resolve().parent / "stack.toml"


def main() -> None:
    """Synthesise the stacks of `stack.toml`, or of the file given by `-c configuration=FILE`."""
    app = App()
    path = Path(app.node.try_get_context("configuration") or DEFAULT)
    try:
        configuration = read_configuration(path)
        platform = target_platform()
        add_stacks(app, configuration, lambda: bundled_code(platform))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    app.synth()


if __name__ == "__main__":
    main()
