"""Changes of bytes, whatever they mean."""

from __future__ import annotations

import random
from collections.abc import Sequence

_BYTES = b'\x00\x01\x7f\x80\xff\n\r \t"\\{}[]:,-+.eE0123456789/%=$*'
_LENGTHS = (1, 1, 2, 4, 8, 16, 1000)


def changed_bytes(data: bytes, draw: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """One to three changes: a byte, a bit, a piece less, twice or of another one of ``others``."""
    message = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 3))):
        kind, place = draw.randrange(7), draw.randrange(len(message) + 1)
        length = draw.choice(_LENGTHS)
        if kind == 0 and place < len(message):
            message[place] = draw.choice(_BYTES)
        elif kind == 1 and place < len(message):
            message[place] ^= 1 << draw.randrange(8)
        elif kind == 2:
            del message[place : place + length]
        elif kind == 3:
            message[place:place] = draw.randbytes(min(length, 16))
        elif kind == 4:
            message[place:place] = message[place : place + length]
        elif kind == 5:
            del message[place:]
        elif others:
            other = draw.choice(others)
            start = draw.randrange(len(other) + 1)
            message[place : place + length] = other[start : start + length]
    return bytes(message)
