"""Makes clients of AWS' services, and is the only place that does. It uses botocore, which boto3
brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from botocore.exceptions import BotoCoreError, HTTPClientError

from sidecar.config.addresses import shown_url
from solver_lambda.documents.reader import DocumentError

# A bound on what AWS answers, or whoever is in its place: botocore reads any answer whole.
# A page of a list has 1000 keys of 1024 bytes at most, and SQS gives 10 messages of 256 KiB.
MOST_BYTES = 16 * 1024 * 1024


class EndlessAnswerError(BotoCoreError):  # type: ignore[misc]
    """The rest of the answer was not read."""

    fmt = "the answer has more than {most_bytes} bytes"


def bound_answers(client: Any) -> None:
    """Have a call of the client raise EndlessAnswerError where the answer is longer than that. A
    document's body, which is read in parts, has a bound where it is read."""
    session = client._endpoint.http_session
    session.send = _telling(session.send)
    for scheme, make_pool in session._pool_classes_by_scheme.items():
        session._pool_classes_by_scheme[scheme] = _bounded_pools(make_pool)


def _telling(send: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make ``send`` raise an error of botocore where botocore has put another one around it."""

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
    """Pass on at most ``MOST_BYTES``. Raises EndlessAnswerError."""
    total_bytes = 0
    for part in parts:
        total_bytes += len(part)
        if total_bytes > MOST_BYTES:
            raise EndlessAnswerError(most_bytes=MOST_BYTES)
        yield part


# The time for a call of a command, and wherever nothing says how long an answer may take.
USUAL_SECONDS = 20.0
# From here on there is time for a second attempt, after a pause of a second at most.
RETRY_FROM_SECONDS = 10.0


def client(
    service: str,
    region: str,
    endpoint_url: str | None,
    limit_seconds: float = USUAL_SECONDS,
    *,
    answer_seconds: float | None = None,
) -> Any:
    """Return a client; credentials come from the environment as usual.

    Args:
        limit_seconds: a call to somebody who does not answer fails sooner.
        answer_seconds: how long an answer may be silent, within the limit; then nothing is tried
            twice.

    Raises:
        DocumentError: there is no such place, or boto3 is not installed.
    """
    try:
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError

        from sidecar.storage.aws import bound_answers
        from sidecar.storage.emulator_guard import guard
    except ImportError as error:
        raise DocumentError("controller: a cloud is asked for, but boto3 is missing") from error
    attempts = 2 if limit_seconds >= RETRY_FROM_SECONDS and answer_seconds is None else 1
    wait_seconds = limit_seconds / (2 * attempts + 1)
    try:
        made = _session().create_client(
            service,
            region_name=region,
            endpoint_url=endpoint_url,
            config=Config(
                connect_timeout=limit_seconds / 10 if answer_seconds else wait_seconds,
                read_timeout=answer_seconds or wait_seconds,
                retries={"total_max_attempts": attempts, "mode": "standard"},
                s3={"addressing_style": "path"} if endpoint_url else None,
            ),
        )
        bound_answers(made)
        if endpoint_url:
            guard(made, endpoint_url)
        return made
    except (BotoCoreError, ValueError) as error:
        place = shown_url(endpoint_url) if endpoint_url else region
        words = f"controller: {service} cannot be used at {place!r}: {error}"
        raise DocumentError(words) from error


def _session() -> Any:
    """Return a session for one client, as credentials and region may change. What the services are
    like is read once: it takes longer than all else, and is the same for all."""
    from botocore.session import Session

    session = Session()
    session.register_component("data_loader", _service_models())
    return session


@cache
def _service_models() -> Any:
    from botocore.session import Session

    return Session().get_component("data_loader")


def aws_errors() -> tuple[type[Exception], ...]:
    """Return what a call of a client raises when the service or the way to it fails, or answers
    what is no answer of AWS."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    # The last is of an answer that is no text.
    return (BotoCoreError, ClientError, ResponseParserError, UnicodeDecodeError)
