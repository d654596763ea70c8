"""What a look says, as JSON for programs."""

from __future__ import annotations

from typing import Any

from sidecar.commands.look_answer import Answer, gain_error_ratio
from sidecar.commands.look_words import headline, notes
from sidecar.look.server_look import Seen
from sidecar.plans.node_memory import least_as_fast_bytes
from solver_lambda.documents.plan import ServerPlan


def as_json(answer: Answer) -> dict[str, Any]:
    """For programs."""
    plan, observation = answer.found.plan, answer.found.observation
    before = plan.mean_access_time_before_seconds
    return {
        "words": headline(answer),
        "decision": plan.decision,
        "reason": plan.reason,
        "seconds": answer.seconds,
        "budget_bytes": observation.budget_bytes,
        "least_bytes": least_as_fast_bytes(answer.found.plan),
        "mean_access_time_before_seconds": before,
        "mean_access_time_seconds": plan.mean_access_time_seconds,
        "gain_error_ratio": gain_error_ratio(answer) if before else None,
        "servers": [
            _server_json(one, planned)
            for one, planned in zip(answer.seen, plan.servers, strict=True)
        ],
        "not_looked_at": [{"name": one.name, "why": one.why} for one in answer.refused],
        "notes": notes(answer),
        "written": answer.init,
    }


def _server_json(seen: Seen, planned: ServerPlan) -> dict[str, Any]:
    reads = seen.hits + seen.misses
    known = seen.estimate if seen.is_known else None
    return {
        "name": seen.config.name,
        "url": seen.config.url,
        "size_before_bytes": seen.reading.size_bytes,
        "size_bytes": planned.maxmemory_bytes,
        "reads_per_second": reads / seen.seconds,
        "hit_ratio_before": seen.hits / reads if reads else None,
        "hit_ratio": planned.hit_ratio if known else None,
        "curve_error_ratio": seen.error_at(planned.maxmemory_bytes) if known else None,
        "curve": known.curve.to_json() if known else None,
        "known_to_bytes": seen.known_to_bytes,
        "keys_followed": seen.followed,
        "cost_ratio": seen.cost_ratio,
        "keep_reason": seen.estimate.keep_reason if seen.estimate else "nothing is known yet",
    }
