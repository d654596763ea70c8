"""Keeps what is known of one server between readings, for the resolver; carries out its
transitions."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace

from sidecar.base.metrics import Metrics
from sidecar.config.memory import MemoryConfig
from sidecar.config.sampling import SamplingConfig
from sidecar.servers.connection.background_reading import PATIENCE_SECONDS
from sidecar.servers.connection.reading_window import ReadingWindow
from sidecar.servers.connection.redis_server import TIMEOUT_SECONDS, RedisServer
from sidecar.servers.connection.server_errors import ServerDownError, ServerRefusedError
from sidecar.servers.connection.server_reading import ServerReading
from sidecar.servers.connection.unevictable import is_too_small
from sidecar.servers.server_changes import has_more, tell_changes
from sidecar.servers.server_contact import (
    SLOW_SET_SECONDS,
    NotSentError,
    ServerContact,
    rest_seconds,
)
from sidecar.servers.server_sampler import ServerSampler
from sidecar.servers.shrink_mode import ShrinkMode
from sidecar.servers.size_refusal import SizeRefusal
from sidecar.servers.sizes.held_memory import HeldMemory
from sidecar.servers.sizes.intermediate_sizes import MemoryNeed
from sidecar.servers.sizes.kept_size import why_kept
from sidecar.servers.sizes.queue_or_cache import with_remembered_work
from sidecar.servers.sizes.shrink_floor import can_shrink, least_size_bytes, reached_bytes
from sidecar.servers.sizes.transitions import ServerState
from sidecar.servers.unseen_restarts import note_process
from sidecar.state.state_store import StateStore, note_installed

log = logging.getLogger(__name__)

LOOK_PATIENCE_SECONDS = 0.01  # for one that may come back: it is looked at again soon
# A server that hangs up after each answer is read at once no more often than this.
_HANG_UP_SECONDS = 1.0
# Others wait while a server takes its sampler's settings: one that is slow gets them so many times
# as long afterwards.
_SLOW_REST = 10.0
# Who shows no sign of shrink mode is told to begin it again after this time.
_MODE_SECONDS = 60.0
# A size that is set again so soon after it was put back is put back later.
_AGAIN_SECONDS = 0.5
# Who takes no size for so long counts as one that refuses it: the others go on without.
_UNTAKEN_SECONDS = 5.0


class ServerWatch:
    """Watches one server, for one thread at a time; ``contact`` asks it, ``refusal`` is why it
    takes no other size."""

    def __init__(
        self,
        server: RedisServer,
        memory: MemoryConfig,
        sampling: SamplingConfig,
        store: StateStore,
        metrics: Metrics,
    ) -> None:
        self._server, self._store, self._metrics, self.name = server, store, metrics, server.name
        self.contact = ServerContact(server, metrics)
        self._window = ReadingWindow()
        self._last: ServerReading | None = None
        self._full_bytes = 0  # in which it evicted between its last two readings
        self._follows_from = -math.inf  # monotonic: its sampler gets no settings before it
        self._shrinks_since = -math.inf  # monotonic: shrink mode was begun then
        self._untaken_since: float | None = None  # monotonic: no size was taken since then
        self._restarts_from = -math.inf  # monotonic: a hang-up before it is no sign of a restart
        self._arrived = self._is_new = self._is_read = False
        # The most that may be in force: set before a growth is sent, so that a lost reply is safe.
        self._at_most_bytes: float | None = None
        self._sampler = ServerSampler(server, sampling, metrics)
        self._shrink_mode = ShrinkMode(server.name, memory.eviction_tenacity, store)
        self._held = HeldMemory(server.name, memory, metrics)
        self._by_hand_bytes: int | None = None
        self._contested_bytes: float | None = None
        self._put_back_at = -math.inf  # monotonic
        self.refusal = SizeRefusal(server.name, metrics)
        self.primary_bytes: int | None = None  # see ``tell_primaries``

    @property
    def last(self) -> ServerReading | None:
        """Return what it last said, if it answers."""
        return self._last if self.contact.is_up else None

    @property
    def last_seen(self) -> ServerReading | None:  # also of one that hangs: it has its pages still
        return None if self.contact.is_gone else self._last

    @property
    def run_id(self) -> str | None:  # of the process that was last seen
        return self._last.run_id if self._last else None

    def read_since(self, then: float) -> ServerReading | None:
        """Return what it last said, unless that was before (monotonic), and it was asked since."""
        return self.last if self.contact.answered_at >= then or self.contact.rests else None

    def take(self) -> ServerReading | None:
        """Return what it has answered; ``None`` if nothing yet, or what cannot be used."""
        if (reading := self.contact.take()) is None:
            return None
        reading = with_remembered_work(reading, self._server.config, self._store)
        is_back = self.contact.is_back
        is_sure = not (is_back or self.refusal.reason or self.contact.taken_by)
        expected = self._at_most_bytes if is_sure else None
        control = self._store.now.control
        changed = tell_changes(self.name, self._last, reading, expected, self._metrics, control)
        changed |= not self.contact.taken_by and has_more(self._last, reading, self._at_most_bytes)
        if changed and not self.contact.may_be_ours(reading.maxmemory_bytes):
            self._by_hand_bytes = reading.maxmemory_bytes
        note_installed(self._store, self.name, reading.maxmemory_bytes)
        note_process(self._store, self.name, reading)
        is_new = self._last is None or self._last.run_id != reading.run_id
        if is_new:
            self.refusal.take_back()
            self._contested_bytes = None
            self._shrinks_since = -math.inf
            self._window = ReadingWindow()
        if is_back or is_new:
            self._untaken_since = None
        self._arrived = self._arrived or is_back or (is_new and self._last is not None)
        self._window.add(reading)
        last, self._last = self._last, reading
        self._full_bytes = 0
        if last and not is_new and reading.evicted_keys > last.evicted_keys:
            self._full_bytes = min(last.maxmemory_bytes, reading.maxmemory_bytes)
        self._at_most_bytes = reading.maxmemory_bytes or math.inf
        self._shrink_mode.notice_process(reading)
        if reading.tenacity == 0:
            self._shrinks_since = -math.inf  # it shows: who changes that later, is seen
        self._is_new = self._is_new or is_new
        self._is_read = True
        return reading

    def follow_up(self, *, sets_sizes: bool) -> None:
        """Give its sampler its settings, unless it is another sidecar's. Try again what it refused,
        when it is time. This comes after its size, which others need."""
        if not (self._is_read and self._last and self.contact.is_free) or self.contact.taken_by:
            return
        if sets_sizes:
            self.try_again()
        if (began := time.monotonic()) < self._follows_from:
            return
        own_began = self.contact.own_seconds
        self._sampler.follow(self._last, self._is_new)
        self._is_new = self._is_read = False
        took_seconds = time.monotonic() - began
        pause_seconds = rest_seconds(self.contact.own_seconds - own_began)
        if took_seconds > SLOW_SET_SECONDS:
            self.contact.sets_slowly = True
            pause_seconds = max(pause_seconds, _SLOW_REST * took_seconds)
        if pause_seconds:
            self._follows_from = began + took_seconds + pause_seconds

    def take_arrival(self) -> bool:  # another process, or answers again, since the last call
        has_come, self._arrived = self._arrived, False
        return has_come

    def take_size_by_hand(self) -> int | None:
        """Return the size that somebody else has set since the last call; 0 is no limit."""
        size_bytes, self._by_hand_bytes = self._by_hand_bytes, None
        return size_bytes

    @property
    def evicts(self) -> bool:  # as far as it is known
        return self._last is None or self._last.evicts

    def contest(self, size_bytes: int) -> None:
        """Note that somebody else has set this (0: no limit), and that it is to be put back: at
        once, or a second later where that was just done."""
        self._contested_bytes = size_bytes or math.inf
        if time.monotonic() - self._put_back_at < _AGAIN_SECONDS:
            why = "its size was set again as soon as it was put back"
            self.contact.set_no_more_for(TIMEOUT_SECONDS, why)

    @property
    def is_held(self) -> bool:  # has the size that somebody gave it by hand, to stay
        return self._store.now.control.holds(self.name, self._at_most_bytes)

    def can_shrink_now(self, to_bytes: int) -> bool:
        """Whether it can, asked just before a shrink. What one that is slow has just said has to
        do."""
        is_slow = self._last is not None and (self.contact.is_slow or self.contact.rests)
        reading = self._last if is_slow else self._read_now(PATIENCE_SECONDS)
        own = self._store.now.own_bytes
        return reading is not None and can_shrink(reading, self.name, own, to_bytes)

    def _read_now(self, patience_seconds: float) -> ServerReading | None:
        if self.contact.ask() is not None:
            self.contact.wait(patience_seconds)
        return self.take()

    def comes_back(self) -> bool:
        """Whether it is, just now, a process that has not been read yet, or an answer at last."""
        if self.contact.is_free:
            now = time.monotonic()
            if now < self._restarts_from or not (self._last and self.contact.hung_up()):
                return False
            self._restarts_from = now + _HANG_UP_SECONDS
        return self._read_now(LOOK_PATIENCE_SECONDS) is not None

    def state(self, target_bytes: int) -> ServerState:
        """Return its state for the resolver. ``target_bytes``: the size that it is to have now."""
        if (gone := self.contact.is_gone) or self._last is None or self._at_most_bytes is None:
            # It is brought to its target when it comes, or may be there, nobody knows how large.
            most = target_bytes if self.contact.counts_as_planned else math.inf
            return ServerState(self.name, most, 0, target_bytes, reachable=False, gone=gone)
        last, own = self._last, self._store.now.own_bytes
        refuses = self.refusal.reason is not None or self.contact.taken_by is not None
        floor_bytes = reached_bytes(last, self.name, own, target_bytes, self.primary_bytes)
        gives = can_shrink(last, self.name, own, max(floor_bytes, self._at_most_bytes))
        shrinks = self._at_most_bytes > floor_bytes and gives and not refuses
        state = ServerState(
            self.name,
            self._at_most_bytes,
            self._held.held_bytes(last, shrinks=shrinks),
            target_bytes,
            reachable=self.contact.is_free,
            # A noted change may not have been made.
            in_shrink_mode=self._shrink_mode.is_on(last)
            and (last.tenacity == 0 or not shrinks or self._has_begun_to_shrink),
            evicts=gives,
            refuses=refuses,
            held=self.is_held,
            contested=last.evicts and self._contested_bytes == self._at_most_bytes,
            floor_bytes=floor_bytes,
        )
        # Where nothing is left to evict, there is nothing to wait for.
        nothing_goes = last.ignores_maxmemory or is_too_small(
            self._at_most_bytes, last.unevictable_bytes
        )
        stuck = self._held.is_stuck(state) or (state.is_freeing and nothing_goes)
        return replace(state, stuck=stuck, was_at_limit=self._held.was_at_limit)

    @property
    def _has_begun_to_shrink(self) -> bool:
        return time.monotonic() - self._shrinks_since < _MODE_SECONDS

    def take_window(self) -> ReadingWindow:
        """Return what was read since the last call."""
        window, self._window = self._window, ReadingWindow()
        if self._last is not None and not window.readings:
            window.add(self._last)
        return window

    def need(self) -> MemoryNeed:
        """Say what it needs, for the handover. Who evicts has nothing left, whatever a look
        sees."""
        used_bytes = max(self._last.counted_bytes if self._last else 0, self._full_bytes)
        return MemoryNeed(used_bytes, self.least_bytes() or 0)

    def least_bytes(self) -> int | None:
        """Return ``least_size_bytes``; ``None`` if it is gone or was never read."""
        if (last := self._last) is None or self.contact.is_gone:
            return None
        return least_size_bytes(last, self.name, self._store.now.own_bytes, self.primary_bytes)

    @property
    def is_too_small(self) -> bool:
        """Whether it can keep no key in the size that is planned."""
        last, state = self._last, self._store.now
        if last is None or not self.contact.is_up:
            return False
        size = state.targets_bytes[self.name]
        if not last.evicts:
            return reached_bytes(last, self.name, state.own_bytes, size, self.primary_bytes) > size
        # A shrink in vain ends where that is seen, whatever is planned.
        is_in_vain = last.unyielding_bytes or last.seems_unyielding
        stays_bytes = last.maxmemory_bytes if is_in_vain else 0
        return is_too_small(max(size, stays_bytes), last.unevictable_bytes)

    def keep_reason(self, state: ServerState) -> str | None:
        """Say why it cannot be given another size now, in an observation's words."""
        if state.stuck and self.is_too_small:
            state = replace(state, stuck=False)
        return why_kept(state, self._last, self.contact.taken_by, self.refusal.reason)

    def save_settings(self) -> bool:
        """Note on file what ``enter_shrink_mode`` replaces; whether it could be saved."""
        return self._shrink_mode.save_settings(self._seen())

    def enter_shrink_mode(self) -> None:
        """Begin shrink mode, if ``save_settings`` could. Raises as ``RedisServer``."""
        self._shrink_mode.begin(self._seen(), self.contact.set)
        self._shrinks_since = time.monotonic()

    def leave_shrink_mode(self) -> None:
        """End shrink mode after a shrink. Raises as ``RedisServer``."""
        self._shrink_mode.end(self._seen(), self.contact.set)
        self._shrinks_since = -math.inf

    def set_maxmemory(self, size_bytes: int) -> None:
        """Shrink or grow; 0 is no limit. Raises as ``RedisServer``."""
        before, after = self._at_most_bytes, size_bytes or math.inf
        if before is None or after > before:
            self._at_most_bytes = after
        else:
            self._held.note_shrink()
        try:
            self.contact.set({"maxmemory": size_bytes})
        except (ServerRefusedError, NotSentError):
            self._at_most_bytes = before
            raise
        self._at_most_bytes = after
        if self._contested_bytes is not None:
            self._put_back_at = time.monotonic()
        self._contested_bytes = self._untaken_since = None
        self.refusal.take_back()

    def grows_to(self, size_bytes: int) -> bool:
        """Whether this (0: no limit) is more than it has."""
        return not size_bytes or size_bytes > (self._at_most_bytes or 0)

    def failed(self, error: ServerDownError) -> None:
        """Note that nothing came of a transition. Where that lasts, it counts as refused."""
        now = time.monotonic()
        if not self.contact.is_up:
            self._untaken_since = None  # it is out of reach, which is told, and counts as that
        elif self._untaken_since is None:
            self._untaken_since = now
        elif now - self._untaken_since >= _UNTAKEN_SECONDS:
            self._untaken_since = None
            self.refusal.refuse(f"it takes none in time ({error})")

    def refused(self, error: ServerRefusedError) -> None:
        """Note that a transition was refused: nothing is asked of it for a while, each time for
        longer."""
        self.refusal.refuse(str(error))

    def try_again(self) -> None:
        """See after a refusal, when it is time, whether it takes the limit that it has anyway."""
        if not (self.contact.is_up and self.refusal.is_due) or self.contact.taken_by:
            return
        try:
            self.contact.set({"maxmemory": self._seen().maxmemory_bytes})
        except ServerRefusedError as error:
            self.refused(error)
        except ServerDownError:
            pass  # noted and logged by then
        else:
            self.refusal.give_another_try()

    def leave(self) -> None:
        """Leave the server in order when the sidecar stops: nothing half-applied stays, and the
        sampler is off."""
        try:
            self.contact.settle()
            if self._last is not None and self.contact.is_free and not self.contact.taken_by:
                reading = self._server.read()
                self._shrink_mode.notice_process(reading)
                if self._shrink_mode.is_on(reading):
                    self._shrink_mode.end(reading, self.contact.set)
                self._sampler.turn_off()
        except (ServerDownError, ServerRefusedError) as error:
            log.warning("server %s could not be left in order: %s", self.name, error)
        finally:
            self.contact.close()

    def _seen(self) -> ServerReading:
        assert self._last is not None, "only a server that was read has transitions"
        return self._last
