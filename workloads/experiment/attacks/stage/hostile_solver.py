"""A service that answers observations as an attacker likes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from workloads.experiment.harness.loopback_server import LoopbackServer, Question, Reply

# What it is asked, and what came with it: the answer's body, and more headers.
Answer = Callable[[bytes, dict[str, str]], tuple[bytes, dict[str, str]]]


class HostileSolver(LoopbackServer):
    """Listens on the loopback address; a context manager.

    Attributes:
        asked: how often.
        answer: makes the answer.
    """

    def __init__(self, answer: Answer) -> None:
        self.asked = 0
        self.answer = answer
        super().__init__(self._solved)

    def _solved(self, question: Question) -> Reply:
        self.asked += 1
        return Reply(200, *self.answer(question.body, dict(question.headers)))


def forged_plan(question: bytes, reason: str, **sizes_bytes: int) -> bytes:
    """A plan that answers the observation in every formal point; servers that are not named keep
    their sizes."""
    asked: dict[str, Any] = json.loads(question)
    plan = {key: asked[key] for key in ("version", "node", "cycle", "budget_bytes")}
    plan |= {
        "kind": "spreds.plan",
        "observation_made_at_seconds": asked["made_at_seconds"],
        "made_at_seconds": time.time(),
        "method": "forged",
        "decision": "apply",
        "reason": reason,
        "servers": [
            {
                "name": server["name"],
                "maxmemory_before_bytes": server["maxmemory_bytes"],
                "maxmemory_bytes": sizes_bytes.get(server["name"], server["maxmemory_bytes"]),
                "reason": "forged",
            }
            for server in asked["servers"]
        ],
    }
    return json.dumps(plan).encode()
