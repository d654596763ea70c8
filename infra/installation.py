"""All stacks of an installation: the shared one, and one for each cell."""

from __future__ import annotations

from collections.abc import Callable

from aws_cdk import App, Stack, aws_lambda

from infra.cell_stack import CellStack
from infra.chosen_controller import chosen_controller
from infra.configuration import Configuration
from infra.review_exceptions import review
from infra.shared_stack import SharedStack


def add_stacks(
    app: App, configuration: Configuration, function_code: Callable[[], aws_lambda.Code]
) -> list[Stack]:
    """Add the stacks to ``app``, the shared one first.

    Args:
        function_code: makes the function's package; the library wants one of its own for each
            stack.

    Raises:
        ValueError: no controller is fast enough.
    """
    controller = chosen_controller(configuration)
    shared = SharedStack(
        app, configuration.name, configuration=configuration, controller=controller
    )
    cells = []
    for cell in configuration.cells:
        stack = CellStack(
            app,
            cell.stack,
            configuration=configuration,
            cell=cell,
            controller=controller,
            function_code=function_code(),
        )
        stack.add_stack_dependency(shared)  # names its queues
        cells.append(stack)
    review(app, [shared, *cells])
    return [shared, *cells]
