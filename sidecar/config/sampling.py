"""``[sampling]``: where samples go, how many, and how they are kept."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from sidecar.config.addresses import read_endpoint
from sidecar.config.fields import duration
from sidecar.samples.wire_format import DEFAULT_MODULUS, MAX_MODULUS
from solver_lambda.documents.reader import Fields

log = logging.getLogger(__name__)

DEFAULT_RATE = 0.01


@dataclass(frozen=True)
class SamplingConfig:
    """Where samples go, how many, and how they are kept.

    Attributes:
        threshold, modulus: a key is sampled if hash mod ``modulus`` < ``threshold``.
        live_objects: of each server's SHARDS stack.
    """

    endpoint: str
    threshold: int = round(DEFAULT_RATE * DEFAULT_MODULUS)
    modulus: int = DEFAULT_MODULUS
    live_objects: int = 8192


def read_sampling(fields: Fields) -> SamplingConfig:
    """Raises DocumentError."""
    modulus = fields.integer("modulus", DEFAULT_MODULUS, low=1, high=MAX_MODULUS)
    if modulus & (modulus - 1):
        raise fields.refuse("modulus", f"must be a power of two, not {modulus}")
    if fields.has("rate") and fields.has("threshold"):
        raise fields.refuse("rate", "and threshold say the same thing: give one of them")
    rate = fields.number("rate", DEFAULT_RATE, above=0, high=1)
    sampling = SamplingConfig(
        endpoint=read_endpoint(fields, "endpoint"),
        threshold=fields.integer("threshold", max(1, round(rate * modulus)), low=1, high=modulus),
        modulus=modulus,
        live_objects=fields.integer("live_objects", SamplingConfig.live_objects, low=64),
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
