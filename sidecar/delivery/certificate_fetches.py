"""How often strangers may make the sidecar fetch a certificate, so that none keeps out the others.

Whoever reaches the port can name a certificate that nobody has fetched yet.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

MOST_OF_ONE = 5
MOST_SENDERS = 64
WINDOW = timedelta(minutes=1)
_NETWORK_BITS = {4: 24, 6: 48}


class TooManyFetchesError(Exception):
    """This one must wait; one sentence."""


class CertificateFetches:
    """So many in a minute of each sender, and of so many senders. If there are more senders, one of
    the network with the most gives up its place, unless the new one's network would have as many.

    Any thread may call. A sender is an address, or any other name of who delivers.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._since = now()
        self._counts: dict[str, int] = {}
        self._refused: tuple[datetime, str] | None = None

    def count(self, sender: str) -> None:
        """Raises TooManyFetchesError: nothing was counted."""
        with self._lock:
            now = self._now()
            if now - self._since >= WINDOW:
                self._since, self._counts = now, {}
            if not self._has_place(sender) or self._counts.get(sender, 0) >= MOST_OF_ONE:
                self._refused = now, sender
                raise TooManyFetchesError("too many certificates were asked for")
            self._counts[sender] = self._counts.get(sender, 0) + 1

    def was_good(self, sender: str) -> None:
        """The last one that was counted proved a message: it counts no more."""
        with self._lock:
            if self._counts.get(sender, 0):
                self._counts[sender] -= 1

    def problem(self) -> str | None:
        """For people: some were refused within the last minute, so others may be kept out."""
        refused = self._refused
        if refused is None or self._now() - refused[0] >= WINDOW:
            return None
        return (
            f"notifications: strangers ask for too many certificates, the last one from "
            f"{refused[1] or 'the queue'}, so plans may be kept out until SNS' certificate is "
            "known: let only SNS reach controller.listen, or take the queue"
        )

    def _has_place(self, sender: str) -> bool:
        if sender in self._counts or len(self._counts) < MOST_SENDERS:
            return True
        networks = Counter(map(_network_of, self._counts))
        crowd, most = networks.most_common(1)[0]
        if networks[_network_of(sender)] + 1 >= most:
            return False
        del self._counts[next(one for one in self._counts if _network_of(one) == crowd)]
        return True


def _network_of(sender: str) -> str:
    try:
        address = ipaddress.ip_interface(sender).ip
    except ValueError:
        return sender
    return str(ipaddress.ip_network((address, _NETWORK_BITS[address.version]), strict=False))
