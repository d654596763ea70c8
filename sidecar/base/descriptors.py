"""Makes room in open files for what strangers may open, and for what the sidecar itself needs."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

# State, log, history, documents, samples, locks, libraries and threads.
_OWN = 256
# A server takes these: its connections, new ones in their place, and what its files are read with.
_OF_SERVER = 8


def make_room_for_descriptors(servers: int, connections: int) -> bool:
    """Raise the limit of open files, if it is too low for so many servers, and ``connections`` that
    strangers may open. Returns whether there is room then, which is logged if there is none."""
    needed = _OWN + _OF_SERVER * servers + connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return True
    may_have = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, may_have), hard))
    if may_have < needed:
        log.warning(
            "only %d files may be open at a time, and up to %d may be needed: raise the limit "
            "(ulimit -n, or LimitNOFILE= of the service)",
            may_have,
            needed,
        )
    return may_have >= needed
