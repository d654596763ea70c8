"""A bound on what AWS answers, or whoever is in its place: botocore reads any answer whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, HTTPClientError

MOST_BYTES = 16 * 1024 * 1024
"""A page of a list has 1000 keys of 1024 bytes at most, and SQS gives 10 messages of 256 KiB."""


class EndlessAnswerError(BotoCoreError):  # type: ignore[misc]
    """The rest of the answer was not read."""

    fmt = "the answer has more than {most_bytes} bytes"


def bound_answers(client: Any) -> None:
    """Has a call of the client raise EndlessAnswerError where the answer is longer than that. A
    document's body, which is read in parts, has a bound where it is read."""
    session = client._endpoint.http_session
    session.send = _telling(session.send)
    for scheme, make_pool in session._pool_classes_by_scheme.items():
        session._pool_classes_by_scheme[scheme] = _bounded_pools(make_pool)


def _telling(send: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of an error that botocore does not know, it makes one of its own around it."""

    def told(request: Any) -> Any:
        try:
            return send(request)
        except HTTPClientError as error:
            inner = error.kwargs.get("error")
            raise inner if isinstance(inner, BotoCoreError) else error from None

    return told


def _bounded_pools(make_pool: Callable[..., Any]) -> Callable[..., Any]:
    def pool(*words: Any, **how: Any) -> Any:
        made = make_pool(*words, **how)
        urlopen = made.urlopen

        def bounded(*words: Any, **how: Any) -> Any:
            answer = urlopen(*words, **how)
            stream = answer.stream
            answer.stream = lambda *words, **how: _at_most(stream(*words, **how))
            return answer

        made.urlopen = bounded
        return made

    return pool


def _at_most(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Raises EndlessAnswerError."""
    total_bytes = 0
    for part in parts:
        total_bytes += len(part)
        if total_bytes > MOST_BYTES:
            raise EndlessAnswerError(most_bytes=MOST_BYTES)
        yield part
