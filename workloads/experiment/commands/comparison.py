"""Whether two servers said the same."""

from __future__ import annotations

from redis.exceptions import RedisError

# Milliseconds or seconds: what passes between two servers that are asked one after the other.
_TIME_TOLERANCE = 60_000


def same(comparison: str, first: object, second: object) -> bool:
    """Whether replies are alike, by a sign of the vocabulary."""
    if comparison in "~!":
        return True
    first, second = plain(first), plain(second)
    if first == second:
        return True
    if comparison == "*":
        return _sorted(first) == _sorted(second)
    if comparison == "t" and isinstance(first, int) and isinstance(second, int):
        return first > 0 and second > 0 and abs(first - second) <= _TIME_TOLERANCE
    return False


def same_transaction(comparisons: list[str], first: object, second: object) -> bool:
    """Whether the replies of two EXEC are, to commands with these signs."""
    if (
        isinstance(first, list)
        and isinstance(second, list)
        and len(first) == len(second) == len(comparisons)
    ):
        return all(map(same, comparisons, first, second))
    return same("=", first, second)


def plain(reply: object) -> object:
    """A reply that can be compared; an error by its kind and words."""
    if isinstance(reply, RedisError):
        return type(reply).__name__, str(reply)
    if isinstance(reply, list):
        return [plain(item) for item in reply]
    if isinstance(reply, dict):
        return sorted(([plain(key), plain(item)] for key, item in reply.items()), key=repr)
    return repr(reply) if isinstance(reply, float) else reply  # NaN is not equal to itself


def _sorted(reply: object) -> object:
    return sorted(map(_sorted, reply), key=repr) if isinstance(reply, list) else reply
