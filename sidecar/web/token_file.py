"""The page's token is read again when its file is another one: the old one is good no more."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from sidecar.base.metrics import Metrics
from sidecar.base.time_of_day import time_of_day
from solver_lambda.http.guards import TokenGuard
from solver_lambda.secret import SecretError, read_secret, why_no_token

log = logging.getLogger(__name__)


class TokenFile:
    """Gives a guard what the file has.

    Attributes:
        problem: why the token in force is not the file's, for people; ``None``: it is.
    """

    def __init__(self, path: Path, guard: TokenGuard, metrics: Metrics) -> None:
        self.problem: str | None = None
        self._path, self._guard, self._metrics = path, guard, metrics
        self._read_at_seconds = time.time()
        # The configuration that was read may be older than the file is now.
        self._seen: tuple[int, int, int] | None = None

    def look(self) -> None:
        """Read it if it has changed, or could not be read."""
        try:
            found = self._path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
            if seen == self._seen:
                return
            token = read_secret(self._path)
            if why := why_no_token(token):
                raise SecretError(why)
        except (OSError, SecretError) as error:
            why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
            self._refuse(why)
            return
        if token != self._guard.token:
            log.info("operators.token_file %r: the token in it is another one", str(self._path))
        self._guard.token, self._seen, self.problem = token, seen, None
        self._read_at_seconds = time.time()

    def _refuse(self, why: str) -> None:
        self._metrics.tokens_unread.inc()
        read_at = time_of_day(self._read_at_seconds)
        words = f"operators.token_file {str(self._path)!r} {why}; the token read at {read_at} holds"
        if words != self.problem:
            log.warning("%s", words)
        self.problem, self._seen = words, None
