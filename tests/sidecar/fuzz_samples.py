"""Throws malformed batches at the decoder: ``python tests/sidecar/fuzz_samples.py --inputs N``.

Prints how many were refused for each reason. Exit code 1, with the input in hexadecimal, when the
decoder raises anything but ``SampleError`` or accepts what breaks the format's rules.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np

from sidecar.samples.batch import SampleError, decode_batch
from sidecar.samples.wire_format import DEFAULT_MODULUS as MODULUS
from sidecar.samples.wire_format import HEADER
from workloads.sample_batches import SampledServer, number_hashes

_INTERESTING = (0, 1, 2, 7, 8, 9, 15, 16, 17, 103, 104, 105, 255)
_LIMITS = (0, 1, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def seeds() -> list[bytes]:
    """Well-formed batches to start from."""
    messages = []
    for count, threshold in ((0, MODULUS), (1, MODULUS), (5, MODULUS), (400, MODULUS // 64)):
        server = SampledServer(instance=count + 1, threshold=threshold, salt=count)
        operations = np.arange(count) % 6 + 1
        hashes = number_hashes(np.arange(count), count)
        messages += server.batches(hashes, operations, 100, ttl=True, times_us=np.arange(count))
    return messages


def mutants(count: int, seed: int) -> Iterator[bytes]:
    """``count`` messages, each a seed with one to three changes."""
    draw = random.Random(seed)
    starts = seeds()
    for _ in range(count):
        message = bytearray(draw.choice(starts))
        for _ in range(draw.choice((1, 1, 2, 3))):
            kind = draw.randrange(6)
            place = draw.randrange(len(message)) if message else 0
            if kind == 0 and message:
                message[place] = draw.randrange(256)
            elif kind == 1 and message:
                message[place] ^= 1 << draw.randrange(8)
            elif kind == 2:
                del message[place : place + draw.choice((1, 2, 8, 16, 10_000))]
            elif kind == 3:
                message[place:place] = draw.randbytes(draw.choice((1, 2, 8, 16)))
            elif kind == 4 and message:
                message[place % min(len(message), 16)] = draw.choice(_INTERESTING)
            elif len(message) >= HEADER.size:
                field = 16 + 8 * draw.randrange(11)
                message[field : field + 8] = draw.choice(_LIMITS).to_bytes(8, "little")
        yield bytes(message)


def fuzz(count: int, seed: int = 0) -> Counter[str]:
    """Decode ``count`` mutants.

    Returns:
        How many were refused for each reason; ``""`` counts those that were accepted.

    Raises:
        AssertionError: the decoder let something through or failed in another way; the message
            has the input.
    """
    outcomes: Counter[str] = Counter()
    for message in mutants(count, seed):
        try:
            batch = decode_batch(message)
        except SampleError as error:
            outcomes[error.reason] += 1
            continue
        except Exception as error:
            raise AssertionError(f"{error!r} for {message.hex()}") from error
        outcomes[""] += 1
        operations = batch.records["operation"]
        sound = (
            len(message) >= HEADER.size + 16 * len(batch.records)
            and 0 <= batch.threshold <= batch.modulus <= 1 << 32
            and batch.first_time_us <= batch.last_time_us
            and np.all((operations >= 1) & (operations <= 8))
        )
        assert sound, f"accepted {message.hex()}"
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    try:
        outcomes = fuzz(arguments.inputs, arguments.seed)
    except AssertionError as error:
        print(error, file=sys.stderr)
        return 1
    for reason, count in outcomes.most_common():
        print(f"{count:>10} {reason or 'accepted'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
