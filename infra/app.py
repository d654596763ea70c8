"""The CDK application: `cdk synth`, `cdk diff`, `cdk deploy` from this folder."""

from __future__ import annotations

import sys
from pathlib import Path

from aws_cdk import App

from infra.configuration import read_configuration
from infra.function_bundle import bundled_code, target_platform
from infra.review_exceptions import review
from infra.stack import SpredsStack
from solver_lambda.documents.reader import DocumentError

DEFAULT = Path(__file__).resolve().parent / "stack.toml"


def main() -> None:
    """Synthesise the stack of `stack.toml`, or of the file given by `-c configuration=FILE`."""
    app = App()
    path = Path(app.node.try_get_context("configuration") or DEFAULT)
    try:
        configuration = read_configuration(path)
    except (DocumentError, OSError) as error:
        sys.exit(str(error))
    stack = SpredsStack(
        app,
        configuration.name,
        configuration=configuration,
        function_code=bundled_code(target_platform()),
    )
    review(app, stack)
    app.synth()


if __name__ == "__main__":
    main()
