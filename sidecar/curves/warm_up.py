"""Follows the time in which a server still holds much that its sampler has not seen yet."""

from __future__ import annotations

# A share of reads that are hits of unseen objects, whose place in the stack is a guess; above it
# guesses would make the curve.
MOST_UNSEEN_SHARE = 0.02
# Sampled reads after which it is looked at.
BLOCK_READS = 2_000


class WarmUp:
    """Tells while one server is still being learnt, from the first sample on.

    What a server held before has no history. Its hits are put between what the stack has seen since
    and what the server can hold. A simulated cache, which begins empty, takes them for misses. So
    nothing that was counted is kept until such hits have become rare; after ``limit_seconds`` they
    are taken for what the load is like (many TTLs, lost batches).

    Attributes:
        unseen_share: of the last reads that were looked at.
    """

    def __init__(self, limit_seconds: float) -> None:
        self._is_over = False
        self.unseen_share = 0.0
        self._limit_us = limit_seconds * 1e6
        self._began_at_us: int | None = None
        self._reads = self._unseen = 0

    @property
    def is_on(self) -> bool:
        """Whether what is counted now is not kept."""
        return not self._is_over and self.unseen_share > MOST_UNSEEN_SHARE

    def take(self, reads: int, unseen_hits: int, now_us: int) -> None:
        """Count the reads of a batch."""
        if self._began_at_us is None:
            self._began_at_us = now_us
        self._reads += reads
        self._unseen += unseen_hits
        if now_us - self._began_at_us > self._limit_us:
            self._is_over = True

    def must_forget(self, least_reads: int = BLOCK_READS) -> bool:
        """Look at the reads since the last look, if they are enough; whether to forget them."""
        if self._is_over or self._reads < least_reads:
            return False
        self.unseen_share = self._unseen / self._reads
        self._reads = self._unseen = 0
        self._is_over = self.unseen_share <= MOST_UNSEEN_SHARE
        return self.is_on
