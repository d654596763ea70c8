"""Scripts of faults: what befalls a node, step by step, as text that people can read and replay.

One step a line, ``WHAT [SERVER] [VALUE...]``: ``plan 3 1 1``, ``kill_server 0``,
``start_server 0 24``, ``wait 0.5``. Empty lines and what follows a ``#`` count for nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

POLICIES = ("noeviction", "allkeys-lru")

Value = float | str | tuple[int, ...] | None


@dataclass(frozen=True)
class Step:
    """Describes one thing that happens.

    Attributes:
        what: a method of ``Stage``.
        server: its number, counted from 0; ``None``: the step is of no server.
        value: seconds, MiB, a policy, or a plan's shares; ``None``: the step has none.
    """

    what: str
    server: int | None = None
    value: Value = None


@dataclass(frozen=True)
class Verdict:
    """Tells how it went.

    Attributes:
        ok: all that must hold held.
        words: what did not; for people.
        above_budget_seconds: for how long the sum of ``maxmemory`` was above the budget.
        longest_above_seconds: the longest such time.
        named_gaps: what excuses these times, in words.
    """

    ok: bool
    words: str
    above_budget_seconds: float
    longest_above_seconds: float
    named_gaps: list[str]


class ScriptError(ValueError):
    """The script cannot be read; the message names the line."""


class Stage(Protocol):
    """A node that things befall: real servers and a real sidecar, or a model of them.

    What is done to somebody who is not there, such as waking one who does not hang, does nothing.
    """

    def plan(self, *shares: int) -> None:
        """New targets: the budget in these proportions. The sidecar is to bring servers there."""

    def kill_server(self, server: int) -> None:
        """``kill -9``: its memory and its settings are gone."""

    def start_server(self, server: int, maxmemory_mib: float) -> None:
        """Start the server, where it is dead; its own file says that size (0: no limit)."""

    def hang_server(self, server: int) -> None:
        """Send SIGSTOP to the server."""

    def wake_server(self, server: int) -> None:
        """Send SIGCONT to the server."""

    def kill_sidecar(self) -> None:
        """End the sidecar by ``kill -9``."""

    def start_sidecar(self) -> None:
        """Start the sidecar, where none runs, from the state file that is there."""

    def terminate_sidecar(self) -> None:
        """SIGTERM, and wait for its end."""

    def hang_sidecar(self) -> None:
        """Send SIGSTOP to the sidecar."""

    def wake_sidecar(self) -> None:
        """Send SIGCONT to the sidecar."""

    def set_by_hand(self, server: int, maxmemory_mib: float) -> None:
        """Somebody else sets its size (0: no limit)."""

    def policy(self, server: int, policy: str) -> None:
        """Somebody else sets ``maxmemory-policy``."""

    def refuse(self, server: int) -> None:
        """The sidecar's user loses the right to CONFIG SET."""

    def accept(self, server: int) -> None:
        """The sidecar's user has the right to CONFIG SET again."""

    def delay(self, server: int, seconds: float) -> None:
        """Between sidecar and server each reply takes so much longer."""

    def drop_replies(self, server: int) -> None:
        """Commands of the sidecar reach the server; replies do not come back."""

    def pass_replies(self, server: int) -> None:
        """Neither slow nor dropped any more."""

    def pin(self, server: int, mebibytes: float) -> None:
        """Make so much of its memory impossible to evict."""

    def unpin(self, server: int) -> None:
        """Free that memory again."""

    def wait(self, seconds: float) -> None:
        """Time goes by."""

    def settle(self) -> None:
        """Undo all faults: start and wake everybody, let them accept, pass replies, and evict."""

    def verdict(self) -> Verdict:
        """Wait until sizes are as planned, two cycles at most, and say what broke."""


@dataclass(frozen=True)
class _Form:
    """Describes a kind of step: what follows its name, how often chance draws it, and how."""

    has_server: bool = True
    value: Callable[[str], Value] | None = None
    weight: int = 1
    draw: Callable[[random.Random, int], Value] = lambda _random, _servers: None


def _number(word: str) -> float:
    number = float(word)
    if not 0 <= number < math.inf:
        raise ValueError
    return number


def _policy(word: str) -> str:
    if word not in POLICIES:
        raise ValueError
    return word


def _mebibytes(chance: random.Random, _servers: int) -> float:
    return chance.choice((0.0, 1.0, 4.0, 8.0, 16.0, 24.0, 48.0, 96.0))


def _some_seconds(chance: random.Random, _servers: int) -> float:
    return chance.choice((0.01, 0.05, 0.1, 0.3, 0.7, 1.5))


def _shares(chance: random.Random, servers: int) -> tuple[int, ...]:
    return tuple(chance.randint(1, 9) for _ in range(servers))


# What heals is about as frequent as what hurts, and time goes by between most steps.
_FORMS = {
    "plan": _Form(has_server=False, weight=12, draw=_shares),
    "kill_server": _Form(weight=4),
    "start_server": _Form(value=_number, weight=8, draw=_mebibytes),
    "hang_server": _Form(weight=4),
    "wake_server": _Form(weight=6),
    "kill_sidecar": _Form(has_server=False, weight=5),
    "start_sidecar": _Form(has_server=False, weight=9),
    "terminate_sidecar": _Form(has_server=False, weight=2),
    "hang_sidecar": _Form(has_server=False, weight=2),
    "wake_sidecar": _Form(has_server=False, weight=4),
    "set_by_hand": _Form(value=_number, weight=3, draw=_mebibytes),
    "policy": _Form(value=_policy, weight=4, draw=lambda chance, _n: chance.choice(POLICIES)),
    "refuse": _Form(weight=3),
    "accept": _Form(weight=4),
    "delay": _Form(value=_number, weight=3, draw=_some_seconds),
    "drop_replies": _Form(weight=3),
    "pass_replies": _Form(weight=5),
    "pin": _Form(value=_number, weight=2, draw=lambda chance, _n: chance.choice((2.0, 6.0, 12.0))),
    "unpin": _Form(weight=3),
    "wait": _Form(has_server=False, value=_number, weight=30, draw=_some_seconds),
}


def dumps(steps: Iterable[Step]) -> str:
    """Write steps as text, one a line."""
    return "".join(f"{_line(step)}\n" for step in steps)


def loads(text: str, servers: int | None = None) -> list[Step]:
    """The steps of a text, for so many servers if that is known. Raises ScriptError."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            found.append(_step(words))
            _check_servers(found[-1], servers)
        except ScriptError as error:
            raise ScriptError(f"line {number}, {' '.join(words)!r}: {error}") from error
    if not found:
        raise ScriptError("there is no step in it")
    return found


def random_script(seed: int, servers: int) -> list[Step]:
    """Faults by chance, the same for the same seed: a plan, then up to thirty steps."""
    chance = random.Random(seed)
    steps = [Step("plan", None, _shares(chance, servers))]
    kinds, weights = list(_FORMS), [form.weight for form in _FORMS.values()]
    for what in chance.choices(kinds, weights, k=chance.randint(4, 30)):
        form = _FORMS[what]
        place = chance.randrange(servers) if form.has_server else None
        steps.append(Step(what, place, form.draw(chance, servers)))
    return steps


def play(steps: Sequence[Step], stage: Stage) -> None:
    """Do all of it on this stage, one step after the other."""
    for step in steps:
        words = step.value if isinstance(step.value, tuple) else (step.value,)
        place = () if step.server is None else (step.server,)
        getattr(stage, step.what)(*place, *(word for word in words if word is not None))


def _line(step: Step) -> str:
    words = step.value if isinstance(step.value, tuple) else (step.value,)
    said = [
        f"{word:g}" if isinstance(word, float) else str(word) for word in words if word is not None
    ]
    place = [] if step.server is None else [str(step.server)]
    return " ".join([step.what, *place, *said])


def _step(words: Sequence[str]) -> Step:
    what, *rest = words
    form = _FORMS.get(what)
    if form is None:
        raise ScriptError(f"there is no step {what!r}, there are {', '.join(_FORMS)}")
    if what == "plan":
        return Step(what, None, _plan(rest))
    wanted = form.has_server + (form.value is not None)
    if len(rest) != wanted:
        raise ScriptError(f"{wanted} words are to follow {what!r}, not {len(rest)}")
    place = None
    if form.has_server:
        if not rest[0].isdecimal():
            raise ScriptError(f"{rest[0]!r} is not the number of a server")
        place = int(rest[0])
    return Step(what, place, None if form.value is None else _read(form.value, rest[-1]))


def _check_servers(step: Step, servers: int | None) -> None:
    if servers is None:
        return
    if step.server is not None and step.server >= servers:
        raise ScriptError(f"servers are 0 to {servers - 1}")
    if isinstance(step.value, tuple) and len(step.value) != servers:
        raise ScriptError(f"a plan needs {servers} shares")


def _read(read: Callable[[str], Value], word: str) -> Value:
    try:
        return read(word)
    except ValueError as error:
        raise ScriptError(f"{word!r} makes no sense there") from error


def _plan(words: Sequence[str]) -> tuple[int, ...]:
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise ScriptError("a plan needs a share for each server, each a whole number above 0")
    return tuple(int(word) for word in words)
