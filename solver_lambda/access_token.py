"""What a bearer token must be, for whoever asks for one."""

from __future__ import annotations

import re

LEAST_CHARACTERS = 16
# One letter sixteen times is guessed at once; 128 random bits in any alphabet have far more.
LEAST_DIFFERENT = 8


def why_no_token(text: str) -> str | None:
    """Say why a text cannot be a token; ``None`` if it can. The text is never in the words."""
    if not re.fullmatch(rf"[!-~]{{{LEAST_CHARACTERS},}}", text):
        return (
            f"must hold one word of at least {LEAST_CHARACTERS} printable ASCII characters, on one "
            "line"
        )
    if len(set(text)) < LEAST_DIFFERENT:
        return f"must hold at least {LEAST_DIFFERENT} different characters: 'openssl rand -hex 16'"
    return None
