"""Tells how a server's accesses are known: by the patch or module in it, or by looks."""

from __future__ import annotations

from dataclasses import replace

from sidecar.samples.wire_format import OLD_SAMPLER
from sidecar.servers.connection.server_reading import SAMPLER_PREFIXES, ServerReading

_IN_IT = dict(zip(SAMPLER_PREFIXES, ("patch", "module"), strict=True))
# Samplers that must not be used once somebody chose another.
_OTHERS = {"module": SAMPLER_PREFIXES[:1], "patch": SAMPLER_PREFIXES[1:], "look": SAMPLER_PREFIXES}


def sampled_by(reading: ServerReading, chosen: str) -> ServerReading:
    """Return the reading without samplers that are not the ``chosen`` one (``auto``: the one that
    is in it, and where there is none a look)."""
    others = _OTHERS.get(chosen, ())
    config = {key: text for key, text in reading.config.items() if not key.startswith(others)}
    reading = replace(reading, config=config) if others else reading
    looks = chosen == "look" or (chosen == "auto" and reading.sampler_prefix is None)
    return replace(reading, is_looked_at=looks)


def sampler_of(reading: ServerReading) -> str | None:
    """Return ``patch``, ``module``, ``look`` or ``None``."""
    if why_not_sampled(reading):
        return None
    return "look" if reading.is_looked_at else _IN_IT[reading.sampler_prefix or ""]


def why_not_sampled(reading: ServerReading) -> str | None:
    """Say why it is not sampled; ``None``: it is, as far as is known."""
    if reading.is_looked_at:
        return f"it {reading.look_refused}" if reading.look_refused else None
    if reading.has_old_sampler:
        return OLD_SAMPLER
    return None if reading.sampler_prefix else "neither patch nor module is in it"
