"""The solver as a program of a container: one observation, or a service.

Usage: python -m solver_lambda OBSERVATIONS_BUCKET KEY
       python -m solver_lambda serve [--host ADDRESS] [--port PORT] [--without-token]

The first makes one plan and ends, as a task (Fargate); the second answers each observation that is
POSTed with its plan.

Exit codes: 0 the plan is there, 1 refused (the reason is on stderr), 2 wrong usage.
"""

from __future__ import annotations

import sys

from solver_lambda.function.answering import RefusedError


def main(arguments: list[str]) -> int:
    """Run the solver, and return the exit code."""
    if arguments[:1] == ["serve"]:
        from solver_lambda.function.http_server import serve

        return serve(arguments[1:])
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    from solver_lambda.function.handler import answer

    try:
        answer(bucket=arguments[0], key=arguments[1])
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
