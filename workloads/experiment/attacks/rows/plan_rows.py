"""Forged plans: what protects keys is kept where sizes are set, whoever planned."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from solver_lambda.documents.observation import Observation
from solver_lambda.planning.quiet_servers import is_quiet
from workloads.background_work import in_background
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.hostile_server import HostileSolver, forged_plan
from workloads.experiment.attacks.stage.target import MIB, SERVER_BYTES, Target

ROWS = Rows()

KEYS = 20_000
VALUE_BYTES = 1000
CYCLE = 'maximum_age = "600ms"\n'
# Clients' buffers alone cost a full server a few.
MOST_EVICTED = 100
# What a plan may claim for a loss.
REASONS = ("back: to before", "over_budget: much", "latency_bound: x")


@contextmanager
def _reads(target: Target, name: str) -> Iterator[None]:
    """Read all keys of a server, evenly, so that it needs all that it has."""

    def read(stop: threading.Event) -> None:
        draw = random.Random(1)
        client = target.client(name)
        while not stop.wait(0.02):
            pipe = client.pipeline(transaction=False)
            for _ in range(200):
                pipe.get(f"key:{draw.randrange(KEYS - 8000, KEYS)}")
            pipe.execute()

    with in_background(read):
        yield


def _write(target: Target, name: str) -> None:
    """Fill a server until it evicts; nothing is read."""
    pipe = target.servers[name].client.pipeline(transaction=False)
    for number in range(KEYS):
        pipe.set(f"key:{number}", b"x" * VALUE_BYTES)
    pipe.execute()
    must(target.evicted() > 0, "the server is not full")


def _sections(solver: HostileSolver, more: str = "", planning: str = "") -> dict[str, str]:
    return {
        # What is refused is not waited for any longer than that.
        "controller": f'kind = "http"\nurl = "{solver.url}"\nplan_deadline = "300ms"\n{more}',
        "cycle": CYCLE,
        "planning": f"minimum_gain_ratio = 0.0\n{planning}",
    }


class _Forger:
    """Takes nearly all from a server, once it knows that the sidecar would let it go, with another
    reason each time; only if it was read in the window, or was not, where that decides."""

    def __init__(self, name: str, *, quiet: bool | None = None) -> None:
        self._name = name
        self._quiet = quiet
        self.forged = 0
        self.is_armed = False

    def answer(self, question: bytes, _headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        observation = Observation.loads(question, "the question")
        server = next(one for one in observation.servers if one.name == self._name)
        if not self.is_armed or server.keep_reason is not None:
            return b"{}", {}
        # On a busy machine whoever reads may stand still for a whole window.
        if self._quiet not in (None, is_quiet(server, observation)):
            return b"{}", {}
        reason = REASONS[self.forged % len(REASONS)]
        self.forged += 1
        # With less for all it cannot wait until somebody needs the memory.
        return forged_plan(question, reason, **{self._name: 3 * MIB}), {}


def _nothing_is_taken(target: Target, forger: _Forger, code: str, plans: int) -> None:
    evicted = target.evicted()
    forger.is_armed = True
    target.until(lambda: forger.forged > plans, "the sidecar asks for no plans")
    size = target.sizes()["pages"]
    must(size == SERVER_BYTES, f"pages has {size} bytes, of {SERVER_BYTES}")
    lost = target.evicted() - evicted
    must(lost <= MOST_EVICTED, f"{lost} keys were evicted")
    must(f"plan refused: {code}" in target.log_text(), f"none was refused as {code}")
    problems = " ".join(target.status()["problems"])
    must(f"a plan was refused: {code}" in problems, f"status says {problems!r}")


@ROWS.add(
    "plans: a full server that is read",
    "a hostile solver answers with plans that take nearly all from a full server whose keys "
    "are read, and give reasons that may cost something: each is refused, nothing is evicted "
    "for them, and status tells it",
)
def _a_server_that_is_read() -> None:
    forger = _Forger("pages", quiet=False)
    with HostileSolver(forger.answer) as solver, Target(sections=_sections(solver)) as target:
        _write(target, "pages")
        with _reads(target, "pages"):
            asked = solver.asked
            target.until(lambda: solver.asked > asked + 1, "the sidecar asks for no plans")
            _nothing_is_taken(target, forger, "harmful", len(REASONS))


@ROWS.add(
    "plans: a full server that is quiet",
    "a hostile solver takes nearly all from a full server that nobody reads now: refused, for "
    "in a cycle such a server loses a tenth at most",
)
def _a_server_that_is_quiet() -> None:
    forger = _Forger("pages", quiet=True)
    with HostileSolver(forger.answer) as solver, Target(sections=_sections(solver)) as target:
        _write(target, "pages")
        _nothing_is_taken(target, forger, "out_of_range", 2)


@ROWS.add(
    "plans: a curve that is not known",
    "a hostile solver shrinks a server whose curve's error is above what the operator allows: "
    "refused",
)
def _a_curve_that_is_not_known() -> None:
    forger = _Forger("pages")
    planning = "maximum_curve_error_ratio = 0.000001\n"
    with (
        HostileSolver(forger.answer) as solver,
        Target(sections=_sections(solver, planning=planning)) as target,
    ):
        _write(target, "pages")
        with _reads(target, "pages"):
            asked = solver.asked
            target.until(lambda: solver.asked > asked + 1, "the sidecar asks for no plans")
            _nothing_is_taken(target, forger, "out_of_range", 2)


@ROWS.add(
    "plans: a server to be kept",
    "a hostile solver shrinks a server that must keep its size: refused",
    held=True,
)
def _a_server_that_is_to_be_kept() -> None:
    def answer(question: bytes, _headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        return forged_plan(question, "gain: more", pages=3 * MIB), {}

    with HostileSolver(answer) as solver, Target(sections=_sections(solver)) as target:
        target.servers["pages"].client.config_set("maxmemory-policy", "noeviction")
        asked = solver.asked
        target.until(lambda: solver.asked > asked + 1, "the sidecar asks for no plans")
        must(target.sizes()["pages"] == SERVER_BYTES, f"sizes are {target.sizes()}")
        must("plan refused: below_minimum" in target.log_text(), "none was refused")


@ROWS.add(
    "plans: documents in the folder",
    "forged plans lie where the sidecar keeps its own, for all cycles to come: none is read",
    held=True,
)
def _plans_in_the_folder() -> None:
    with Target(sections={"cycle": CYCLE}) as target:
        _write(target, "pages")
        folder = target.folder / "documents" / "plans" / "attacked"
        folder.mkdir(parents=True, exist_ok=True)
        asked = {
            "version": 1,
            "node": "attacked",
            "budget_bytes": 2 * SERVER_BYTES,
            "made_at_seconds": time.time(),
            "servers": [{"name": name, "maxmemory_bytes": SERVER_BYTES} for name in target.servers],
        }
        now = int(time.time())
        for cycle in range(now - 5, now + 20):
            question = json.dumps({**asked, "cycle": cycle}).encode()
            plan = forged_plan(question, "gain: more", pages=3 * MIB)
            (folder / f"{cycle:012}.json").write_bytes(plan)
        seen = target.status()["last_observation"]
        target.until(
            lambda: target.status()["last_observation"] not in (None, seen),
            "no observation is made",
        )
        least = target.sizes()["pages"]
        must(least >= 0.8 * SERVER_BYTES, f"pages has {least} bytes, of {SERVER_BYTES}")


def _signature(key: str, question: bytes, answer: bytes) -> str:
    """Sign an answer as docs/operate/solver-elsewhere.md has it."""
    asked = hashlib.sha256(question).hexdigest().encode()
    text = b"spreds.answer\n" + asked + b"\n" + answer
    return "sha256=" + hmac.new(key.encode(), text, hashlib.sha256).hexdigest()


@ROWS.add(
    "plans: answers without the node's key",
    "whoever answers in the solver's place sends plans that are unsigned, signed with another "
    "key, or signed for another observation: none is taken, and the key is in no log",
)
def _answers_without_the_key() -> None:
    key = secrets.token_hex(32)
    forged: list[str] = []

    def answer(question: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        must("X-Spreds-Signature" in headers, "the observation is not signed")
        plan = forged_plan(question, "gain: more", sessions=12 * MIB)
        signatures = (
            None,
            _signature("of somebody else", question, plan),
            _signature(key, question + b" ", plan),
        )
        signature = signatures[len(forged) % 3]
        forged.append(str(signature))
        return plan, {"X-Spreds-Signature": signature} if signature else {}

    with HostileSolver(answer) as solver:
        target = Target(sections=_sections(solver, 'key_file = "key"\n'))
        (target.folder / "key").write_text(key)
        (target.folder / "key").chmod(0o600)
        with target:
            target.until(lambda: len(forged) >= 3, "the sidecar asks for no plans")
            must(target.status()["last_plan"] is None, "a plan was taken that nobody signed")
            must("its answer is not signed" in target.log_text(), "nothing was said")
            must(key not in target.log_text(), "the key is in the log")


@ROWS.add(
    "plans: plain text to another machine",
    "an http address of another machine, without a key and without a line that allows it: "
    "check refuses it",
)
def _plain_text_to_another_machine() -> None:
    target = Target(("pages",))
    try:
        target.prepare()
        text = target.file.read_text()
        for url in ("http://10.0.0.5:8080/", "http://solver.example/", "http://0.0.0.0:1/"):
            controller = f'[controller]\nkind = "http"\nurl = "{url}"\n'
            Path(target.file).write_text(
                text.replace('[controller]\nkind = "embedded"\n', controller)
            )
            done = target.command("check", str(target.file))
            must(done.returncode != 0, f"check takes {url}")
            must("plain text to another machine" in done.stderr, f"it says {done.stderr!r}")
    finally:
        target.__exit__()
