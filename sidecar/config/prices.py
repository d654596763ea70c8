"""Tells what memory and misses cost, where an operator says so: then answers are in money, too."""

from __future__ import annotations

from dataclasses import dataclass

from solver_lambda.documents.reader import Fields

_SECONDS_A_MONTH = 365.25 / 12 * 86_400
_GIB = 1 << 30
_MOST_CURRENCY = 8


@dataclass(frozen=True)
class Prices:
    """Has prices in money of one ``currency``.

    Attributes:
        memory_gib_month: of a GiB in a month.
        thousand_misses: of a thousand misses, of whichever server.
    """

    memory_gib_month: float = 0.0
    thousand_misses: float = 0.0
    currency: str = "USD"

    def __bool__(self) -> bool:
        return bool(self.memory_gib_month or self.thousand_misses)

    def month(self, memory_bytes: float, misses_per_second: float) -> float:
        """Return what so much memory and so many misses cost in a month."""
        misses = misses_per_second * _SECONDS_A_MONTH / 1000
        return self.memory_gib_month * memory_bytes / _GIB + self.thousand_misses * misses

    def words(self, amount: float) -> str:
        """Write an amount for people, with three digits."""
        digits = 0 if amount >= 100 else 1 if amount >= 10 else 2
        return f"{amount:,.{digits}f} {self.currency}"


def read_prices(fields: Fields) -> Prices:
    """Read ``[prices]``. Raises DocumentError."""
    prices = Prices(
        memory_gib_month=fields.number("memory_gib_month", 0.0, low=0),
        thousand_misses=fields.number("thousand_misses", 0.0, low=0),
        currency=fields.text("currency", Prices.currency, most=_MOST_CURRENCY),
    )
    fields.done()
    return prices
