"""The glossary, as commands print it."""

from __future__ import annotations

from sidecar.base.glossary import WORDS


def glossary_lines(used_in: str | None = None) -> list[str]:
    """A line for each word; only for those that are used in a text, if there is one."""
    text = None if used_in is None else used_in.lower()
    return [f"{word}: {meaning}" for word, meaning in WORDS.items() if text is None or word in text]
