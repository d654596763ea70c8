"""One row of the table of attacks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

Play = TypeVar("Play", bound=Callable[..., None])

OK, FELL, SKIPPED = "ok", "FELL", "skipped"


class FellError(AssertionError):
    """The attack had an effect that it must not have; one sentence says which."""


class CannotPlayError(Exception):
    """This machine lacks what the attack needs; one sentence says what."""


@dataclass(frozen=True)
class Attack:
    """An attack and what must hold.

    Attributes:
        name: the door, a colon, and what is tried there.
        does: what the attacker does, and what must not come of it.
        play: does it against a whole sidecar of its own making, and raises ``FellError`` if the
            sidecar falls.
        held: whether it was tried before and had no effect then.
        quick: whether the gate plays it.
    """

    name: str
    does: str
    play: Callable[[], None]
    held: bool = False
    quick: bool = True


class Rows(list[Attack]):
    """Attacks, each of which is said where it is played."""

    def add(
        self, name: str, does: str, *arguments: object, held: bool = False, quick: bool = True
    ) -> Callable[[Play], Play]:
        """Decorates what plays it, with these arguments; the rest is as in ``Attack``."""

        def added(play: Play) -> Play:
            self.append(Attack(name, does, partial(play, *arguments), held, quick))
            return play

        return added


@dataclass(frozen=True)
class Outcome:
    """What came of an attack: ``verdict``, why in ``words``, and how long it took."""

    name: str
    verdict: str
    words: str
    seconds: float


def play_attack(attack: Attack) -> Outcome:
    """Play it; whatever goes wrong in it is a fall as well."""
    began = time.monotonic()
    verdict, words = OK, ""
    try:
        attack.play()
    except CannotPlayError as error:
        verdict, words = SKIPPED, str(error)
    except FellError as error:
        verdict, words = FELL, str(error)
    except Exception as error:  # noqa: BLE001 an attack that cannot be judged has not held
        verdict, words = FELL, f"{type(error).__name__}: {error}"
    return Outcome(attack.name, verdict, words, time.monotonic() - began)


def must(holds: object, otherwise: str) -> None:
    """Raises FellError with these words unless it holds."""
    if not holds:
        raise FellError(otherwise)
