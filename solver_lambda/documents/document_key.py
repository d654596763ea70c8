"""Uses a key that a node and its solver share, by which both know each other's documents over HTTP.

Each body has an HMAC-SHA256 (RFC 2104) in the header ``X-Spreds-Signature: sha256=HEX``. That of an
answer covers the question, too. So an old answer cannot be given to a new question, and neither can
be taken for the other. A question without a body has a nonce in ``X-Spreds-Nonce`` instead. That of
a refusal covers its status, so that none can be taken for another. It hides nothing: that is for
https.
"""

from __future__ import annotations

import hashlib
import hmac

from solver_lambda.secret import why_no_token

HEADER = "X-Spreds-Signature"
NONCE_HEADER = "X-Spreds-Nonce"
LEAST_KEY_CHARACTERS = 32


def check_key(key: str) -> bytes:
    """Return the key's bytes, as both sides have it in a file or the environment.

    Raises:
        ValueError: it is too short to be a secret, or not one word.
    """
    if why := why_no_token(key, LEAST_KEY_CHARACTERS):
        raise ValueError(why)
    return key.encode()


def question_signature(key: bytes, question: bytes) -> str:
    """Return the header's value for what is sent to the solver: an observation, or a nonce."""
    return _signature(key, b"spreds.question\n" + question)


def answer_signature(key: bytes, question: bytes, answer: bytes, status: int = 200) -> str:
    """Return the header's value for what answers ``question``: a refusal if the status is not
    200."""
    asked = hashlib.sha256(question).hexdigest().encode()
    kind = b"spreds.answer" if status == 200 else b"spreds.refusal %d" % status
    return _signature(key, kind + b"\n" + asked + b"\n" + answer)


def is_signature(given: str | None, right: str) -> bool:
    """Whether the header's value is the right one, in constant time."""
    return hmac.compare_digest((given or "").encode(errors="replace"), right.encode())


def _signature(key: bytes, text: bytes) -> str:
    return "sha256=" + hmac.new(key, text, hashlib.sha256).hexdigest()
