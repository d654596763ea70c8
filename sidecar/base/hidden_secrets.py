"""Hides secrets of ours in what a peer says: Redis and gateways repeat what they were sent."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "(secret)"
# Shorter ones may be parts of honest words: they are hidden where they stand alone.
_SHORT = 8
# Who cuts a long one off (Redis shows 128 characters of each word) has shown that much of it.
_TELLING = 16


def without_secrets(words: str, secrets: Iterable[str | None]) -> str:
    """Return the words without any of the secrets, also where white space was put into one, or only
    its beginning is there."""
    for secret in filter(None, secrets):
        words = _without(words, [sign for sign in secret if not sign.isspace()])
    return words


def _without(words: str, signs: list[str]) -> str:
    if not signs:
        return words
    telling = r"\s*".join(map(re.escape, signs[:_TELLING]))
    begins = re.compile(telling if len(signs) >= _SHORT else rf"(?<!\w){telling}(?!\w)")
    kept, end = [], 0
    while found := begins.search(words, end):
        kept += [words[end : found.start()], HIDDEN]
        end = found.end()
        for sign in signs[_TELLING:]:
            at = end
            while at < len(words) and words[at].isspace():
                at += 1
            if not words.startswith(sign, at):
                break
            end = at + 1
    return "".join([*kept, words[end:]])
