"""Whether the sidecar asked for a growth before there was room for it, by its own order.

The observer cannot see what lasts for less than two of its looks. The launcher's lines can: they
say when each CONFIG SET was sent and when it was answered, and nobody else set a size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_LINE = re.compile(r"(?:step \d+|(done)|(failed)) set (\w+)(?: maxmemory=(\d+))?")


def growths_too_early(
    lines: Iterable[str], budget_bytes: int, first_bytes: Mapping[str, int]
) -> list[str]:
    """The lines at which sizes that may have been in force together were above the budget.

    A size is in force until a lower one was answered, a higher one from when it is sent. What a
    CONFIG SET did that was not answered well, or not in that life of the sidecar, is not known:
    then the server does not count until its next. ``first_bytes``: in force before the first line.
    """
    sizes = dict(first_bytes)
    sent: dict[str, int] = {}
    early = []
    for line in lines:
        if line == "begins":
            for name in sent:
                sizes.pop(name, None)
            sent.clear()
        match = _LINE.match(line)
        if match is None or (match[4] is None and not match[2]):
            continue
        done, failed, name = match[1], match[2], match[3]
        if failed:
            sent.pop(name, None)
            sizes.pop(name, None)
        elif done:
            sizes[name] = sent.pop(name, int(match[4]))
        else:
            sent[name] = int(match[4])
            if name in sizes:
                sizes[name] = max(sizes[name], sent[name])
                if sent[name] == sizes[name] and sum(sizes.values()) > budget_bytes:
                    early.append(line)
    return early
