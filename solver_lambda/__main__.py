"""One observation, one plan, then exit: how a container (Fargate) runs the function.

Usage: python -m solver_lambda OBSERVATIONS_BUCKET KEY

Exit codes: 0 the plan is there, 1 refused (the reason is on stderr), 2 wrong usage.
"""

from __future__ import annotations

import sys

from solver_lambda.function.handler import RefusedError, answer


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        answer(bucket=arguments[0], key=arguments[1])
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
