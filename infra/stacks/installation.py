"""All stacks of an installation: the shared one, and one for each cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aws_cdk import App, Stack, Tags, aws_iam, aws_lambda

from infra.stack_file.account import Account
from infra.stack_file.configuration import Configuration
from infra.stacks.cell_stack import CellStack
from infra.stacks.chosen_controller import chosen_controller
from infra.stacks.review_exceptions import review
from infra.stacks.shared_stack import SharedStack
from infra.stacks.stack_environment import HERE


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
    stacks = [shared, *cells]
    _meet(configuration.account, app, stacks)
    review(app, stacks)
    return stacks


def _meet(account: Account, app: App, stacks: Sequence[Stack]) -> None:
    """Tags on all that takes any, and a boundary on each role."""
    for key, value in account.tags:
        Tags.of(app).add(key, value)
    if (arn := account.boundary_arn(HERE)) is None:
        return
    for stack in stacks:
        policy = aws_iam.ManagedPolicy.from_managed_policy_arn(stack, "Boundary", arn)
        aws_iam.PermissionsBoundary.of(stack).apply(policy)
