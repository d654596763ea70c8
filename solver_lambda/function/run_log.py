"""What the function logs: one JSON line for each thing, on stdout."""

from __future__ import annotations

import json
import sys

from solver_lambda.documents.plan import AdaptationPlan


def log_plan(plan: AdaptationPlan, written: bool) -> None:
    """Log what was decided; ``written`` is false where another run had written the plan before."""
    log_event(
        "plan" if written else "plan_was_there",
        node=plan.node,
        cycle=plan.cycle,
        decision=plan.decision,
        reason=plan.reason,
        method=plan.method,
        optimality_gap=plan.optimality_gap,
        mean_access_time_before_seconds=plan.mean_access_time_before_seconds,
        mean_access_time_seconds=plan.mean_access_time_seconds,
        maxmemory_bytes={
            server.name: [server.maxmemory_before_bytes, server.maxmemory_bytes]
            for server in plan.servers
        },
        run_seconds=plan.run_seconds,
        run_memory_bytes=plan.run_memory_bytes,
    )


def log_event(event: str, **fields: object) -> None:
    """One JSON line on stdout, where FaaS and containers collect logs."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()
