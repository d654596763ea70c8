"""Reads ``[sampling]``: where samples go, how many, and how they are kept."""

from __future__ import annotations

import grp
import logging
from dataclasses import dataclass

from sidecar.config.addresses import read_endpoint
from sidecar.config.fields import duration
from sidecar.samples.wire_format import DEFAULT_MODULUS, MAX_MODULUS
from solver_lambda.documents.reader import Fields

log = logging.getLogger(__name__)

AUTO = "auto"
DEFAULT_RATE = 0.01
# How many are kept of a server. What sampling alone makes of the mean error is then 0.0014 at most
# (loads with 25 to 80 thousand keys, anchored), where it is 0.0035 with a quarter of them.
LIVE_OBJECTS = 32_768

LOOK_COST_RATIO = 0.01


@dataclass(frozen=True)
class SamplingConfig:
    """Says where samples go, how many, and how they are kept.

    Attributes:
        is_automatic: the threshold is only the first one; see ``SamplingRate``.
        threshold, modulus: a key is sampled if hash mod ``modulus`` < ``threshold``.
        live_objects: of each server's SHARDS stack.
        look_cost_ratio: of a core of a server that is looked at, for our questions at most.
        group: whose members may connect to the socket, as a number; ``None``: nobody's.
    """

    endpoint: str
    is_automatic: bool = True
    threshold: int = round(DEFAULT_RATE * DEFAULT_MODULUS)
    modulus: int = DEFAULT_MODULUS
    live_objects: int = LIVE_OBJECTS
    group: int | None = None
    look_cost_ratio: float = LOOK_COST_RATIO


def read_sampling(fields: Fields) -> SamplingConfig:
    """Read ``[sampling]``. Raises DocumentError."""
    modulus = fields.integer("modulus", DEFAULT_MODULUS, low=1, high=MAX_MODULUS)
    if modulus & (modulus - 1):
        raise fields.refuse("modulus", f"must be a power of two, not {modulus}")
    if fields.has("rate") and fields.has("threshold"):
        raise fields.refuse("rate", "and threshold say the same thing: give one of them")
    is_automatic = fields.value("rate", AUTO) == AUTO and not fields.has("threshold")
    rate = DEFAULT_RATE if is_automatic else fields.number("rate", DEFAULT_RATE, above=0, high=1)
    sampling = SamplingConfig(
        endpoint=read_endpoint(fields, "endpoint", "open_endpoint"),
        is_automatic=is_automatic,
        threshold=fields.integer("threshold", max(1, round(rate * modulus)), low=1, high=modulus),
        modulus=modulus,
        group=_read_group(fields),
        live_objects=fields.integer("live_objects", SamplingConfig.live_objects, low=64),
        look_cost_ratio=fields.number("look_cost", LOOK_COST_RATIO, above=0, high=0.5),
    )
    if fields.has("half_life"):
        duration(fields, "half_life", above=0)
        log.warning(
            "%s: sampling.half_life is not used any more: how far to look back is learnt, from a "
            "twelfth of cycle.maximum_age to six times that",
            fields.source,
        )
    fields.done()
    return sampling


def _read_group(fields: Fields) -> int | None:
    if not fields.has("group"):
        return None
    if not fields.text("endpoint").startswith("ipc:///"):
        raise fields.refuse("group", "is for an endpoint ipc:///PATH: only a file has a group")
    name = fields.text("group")
    try:
        return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise fields.refuse("group", f"names {name!r}, which is no group of this machine") from None
