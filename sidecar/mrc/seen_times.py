"""Whether the times of a trace can be what they are taken for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sidecar.traces.file import TraceError

if TYPE_CHECKING:
    from sidecar.traces.file import TracePath

_YEAR_SECONDS = 365.25 * 86400
_MOST_YEARS = 100
_LATEST_SECONDS = 1e11  # since any origin; in milliseconds it was 1973
# So many gaps between requests are looked at, and this share should be shorter than a TTL.
_GAPS, _FEWEST_WITHIN = 100_000, 0.1
# Times since 1970 are seconds where they look so. Others may be anything, and a load of so few
# requests that most are more than one such second apart is rare; and where times are whole numbers,
# so is one that has fewer than ten requests in each.
_SINCE_1970_SECONDS, _ENOUGH_GAPS, _RARE_SECONDS, _RARE_WHOLE_SECONDS = 1e8, 100, 1.0, 0.1
_UNIT = "--time-unit says what unit the times are in (s, ms, us or ns)"


class SeenTimes:
    """Follows the times of a trace, in the order of its requests.

    Args:
        path: of the file.

    Attributes:
        went_back: how many were earlier than one before.
    """

    def __init__(self, path: TracePath) -> None:
        self.went_back = 0
        self._path = path
        self._requests = 0
        self._earliest = self._nearest = np.inf
        self._gaps: npt.NDArray[np.float64] = np.zeros(0)
        self._latest = self._last = -np.inf
        self._furthest_back = 0.0

    def take(self, times: npt.NDArray[np.float64]) -> None:
        """Take those of the next requests, shape (n,), n > 0.

        Raises:
            TraceError: they are centuries apart, or too late.
        """
        latest_before = np.maximum.accumulate(np.concatenate([[self._latest], times]))
        back = latest_before[:-1] - times
        self.went_back += int(np.count_nonzero(back > 0))
        self._furthest_back = max(self._furthest_back, float(back.max()))
        gaps = np.abs(np.diff(np.concatenate([[self._last], times])))
        self._nearest = min(self._nearest, float(gaps.min()))
        if len(self._gaps) < _GAPS:
            self._gaps = np.concatenate([self._gaps, gaps[np.isfinite(gaps)]])
        self._requests += len(times)
        self._latest, self._last = float(latest_before[-1]), float(times[-1])
        self._earliest = min(self._earliest, float(times.min()))
        years = (self._latest - self._earliest) / _YEAR_SECONDS
        if years > _MOST_YEARS or max(abs(self._latest), abs(self._earliest)) > _LATEST_SECONDS:
            raise TraceError(
                f"{self._path}: its times, {self._earliest:g} to {self._latest:g}, cannot be "
                f"seconds: {_UNIT}"
            )

    @property
    def span_seconds(self) -> float:
        """Return the seconds from the earliest to the latest."""
        return max(0.0, self._latest - self._earliest)

    def must_fit(self, seconds: float, what: str, *, is_unit_given: bool) -> None:
        """Raises TraceError if nothing can be said of what takes so long, or hardly anything while
        nobody said what unit the times are in."""
        if self._requests > 1 and self._nearest > seconds:
            raise TraceError(
                f"{self._path}: no two requests that follow each other are within {what}, the "
                f"nearest are {self._nearest:g} s apart: {_UNIT}"
            )
        if not is_unit_given and len(self._gaps):
            within = float(np.mean(self._gaps <= seconds))
            if within < _FEWEST_WITHIN:
                raise TraceError(
                    f"{self._path}: of two requests that follow each other, only {within:.1%} are "
                    f"within {what}: {_UNIT}, also s"
                )
            is_relative = self._earliest < _SINCE_1970_SECONDS
            if not is_relative or len(self._gaps) < _ENOUGH_GAPS:
                return
            middle, mean = float(np.median(self._gaps)), float(np.mean(self._gaps))
            are_whole = not np.any(self._gaps % 1)
            if middle > _RARE_SECONDS or (are_whole and mean > _RARE_WHOLE_SECONDS):
                raise TraceError(
                    f"{self._path}: its requests would be {max(middle, mean):.3g} s apart, and its "
                    f"times may be milliseconds: {_UNIT}, also s"
                )

    def must_not_go_back(self, ttl_seconds: float) -> None:
        """Raises TraceError if one does, by more than the TTL."""
        if self._furthest_back > ttl_seconds:
            raise TraceError(
                f"{self._path}: {self.went_back:,} times go back, one by "
                f"{self._furthest_back:g} s, more than the TTL: sort the trace by its times (where "
                "they are a CSV's first column: "
                "(head -1 FILE; tail -n +2 FILE | sort -s -t, -k1,1g) > SORTED.csv)"
            )
