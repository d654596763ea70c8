"""A compromised cache that is another process at each look, and takes its time: what it does to
itself costs no other server."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from workloads.background_work import in_background
from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.hostile_server import ask_real, hostile_in_place_of
from workloads.experiment.attacks.stage.target import MIB, SERVER_BYTES, Target

ROWS = Rows()

NAMES = ("pages", "sessions", "timeline")
SLOW_SECONDS = 0.9
# One that is under way when the budget falls, and one that began before anybody had seen that.
MOST_SLOW_SETTINGS = 2
# Of how many keys each server is read, and how many at once, before and after the load turns.
READS = {
    "pages": ((2_000, 5), (2_000, 5)),
    "sessions": ((2_500, 20), (12_800, 160)),
    "timeline": ((30_000, 60), (30_000, 2)),
}


class _Impostor:
    """Says that it is another process; its samples are still known. ``is_slow``: to each setting.

    Attributes:
        settings: how many it was asked to take.
        number: of the process that it says it is.
    """

    def __init__(self, target: Target, *, changes: bool, is_slow: bool) -> None:
        self._real = target.servers["pages"].client
        self._run_id = self._real.info("server")["run_id"].encode()
        self._changes, self._is_slow = changes, is_slow
        self.settings = self.number = 0

    def answer(self, words: list[str]) -> list[bytes] | None:
        if words[0].upper() == "INFO":
            self.number += self._changes
            own = self._run_id[:16] + b"%024x" % self.number
            return [ask_real(self._real, words).replace(self._run_id, own)]
        if self._is_slow and [word.upper() for word in words[:2]] == ["CONFIG", "SET"]:
            self.settings += 1
            time.sleep(SLOW_SECONDS)
        return None


@ROWS.add(
    "claims: a new process that takes settings slowly",
    "a compromised cache is another process at each look, and takes nearly a second for each "
    "setting: when the budget falls the others shrink all the same",
)
def _a_slow_impostor() -> None:
    memory = 'budget = "48%"\ncgroup = "{folder}/caches.slice"\n'
    target = Target(NAMES, {"memory": memory})
    limit = target.folder / "caches.slice" / "memory.max"
    limit.parent.mkdir()
    limit.write_text(str(100 * MIB))
    with target:
        impostor = _Impostor(target, changes=True, is_slow=True)
        with hostile_in_place_of(target, "pages", impostor.answer):
            target.until(lambda: impostor.settings > 2, "it is asked to take no setting")
            limit.write_text(str(70 * MIB))
            before = impostor.settings

            def are_smaller() -> bool:
                sizes = target.sizes()
                return max(sizes["sessions"], sizes["timeline"]) < SERVER_BYTES

            target.until(are_smaller, "the others do not shrink")
            asked = impostor.settings - before
            must(asked <= MOST_SLOW_SETTINGS, f"the others waited for {asked} slow settings")


class _Load:
    """Reads whose misses are filled. After ``turn`` other keys are read: those of ``sessions`` in
    a loop that needs what it had before the plan."""

    def __init__(self, target: Target) -> None:
        self._target, self._has_turned = target, threading.Event()

    def turn(self) -> None:
        """Read other keys from now on."""
        self._has_turned.set()

    def of(self, name: str) -> Callable[[threading.Event], None]:
        """Return what reads a server until it is told to stop."""
        client, draw, places = self._target.client(name), random.Random(name), itertools.count()

        def read(stop: threading.Event) -> None:
            while not stop.wait(0.03):
                has_turned = self._has_turned.is_set()
                keys, at_once = READS[name][has_turned]
                is_loop = has_turned and name == "sessions"
                wanted = [
                    f"key:{next(places) % keys if is_loop else draw.randrange(keys)}"
                    for _ in range(at_once)
                ]
                self._target.read_through(client, wanted, b"x" * 1000)

        return read


@ROWS.add(
    "claims: a new process after each plan",
    "a compromised cache, whose size a plan left as it was, is another process from then on: what "
    "the plan did to the others is judged and taken back all the same",
    quick=False,
)
def _who_restarts_excuses_nobody() -> None:
    with Target(NAMES, {"cycle": 'maximum_age = "25s"\n'}) as target, ExitStack() as held:
        load = _Load(target)
        impostor = _Impostor(target, changes=False, is_slow=False)
        for name in NAMES:
            held.enter_context(in_background(load.of(name)))
        with hostile_in_place_of(target, "pages", impostor.answer):

            def is_cut() -> bool:
                return target.sizes()["sessions"] < 13 * MIB

            target.until(is_cut, "no plan takes memory from sessions", 90.0)
            load.turn()
            impostor.number = 1
            history = target.folder / "state.json.history"

            def outcomes() -> list[dict[str, object]]:
                entries = map(json.loads, history.read_text().splitlines())
                return [one for one in entries if one["kind"] in ("check", "rollback")]

            target.until(lambda: bool(outcomes()), "no plan is judged", 90.0)
            outcome = outcomes()[0]
            must(outcome["kind"] == "rollback", f"the plan stays: {outcome['words']}")
