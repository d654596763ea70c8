"""Teams' own settings for their server: one small document each, in the store."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sidecar.config.node import SettingsLimits
from solver_lambda.document import check_kind, parse_json

KIND = "spreds.settings"
VERSION = 1
MAX_BYTES = 16 * 1024


@dataclass(frozen=True)
class TeamSettings:
    """What a team wants; ``None`` leaves the operator's value.

    Attributes:
        set_by, set_at: who and when (ISO 8601).
    """

    set_by: str
    set_at: str
    weight: float | None = None
    backend_latency_seconds: float | None = None
    minimum_bytes: int | None = None
    latency_bound_seconds: float | None = None

    @property
    def version(self) -> str:
        """Names this content, with its time: plans say which version they used."""
        return f"{self.set_at}-{hashlib.sha256(self.dumps()).hexdigest()[:8]}"

    def values(self) -> dict[str, Any]:
        """The settings that are given, by their names in the document."""
        given = {key: value for key, value in self.__dict__.items() if value is not None}
        return {key: value for key, value in given.items() if key not in ("set_by", "set_at")}

    def to_json(self) -> dict[str, Any]:
        who = {"set_by": self.set_by, "set_at": self.set_at}
        return {"kind": KIND, "version": VERSION, **who, **self.values()}

    def dumps(self) -> bytes:
        """The document as it is stored."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False).encode()

    @classmethod
    def loads(
        cls, text: bytes | str, source: str, limits: SettingsLimits | None = None
    ) -> TeamSettings:
        """Read and check a document, also against the operator's limits if they are known.

        Raises:
            DocumentError: with the key and value at fault.
        """
        fields = parse_json(text, source, MAX_BYTES)
        check_kind(fields, KIND, VERSION)

        def optional(key: str, low: float, high: float | None, *, above: float = -1) -> Any:
            if not fields.has(key):
                return None
            return fields.number(key, low=low, high=_or_infinite(high), above=above)

        minimum = None
        if fields.has("minimum_bytes"):
            most = limits.maximum_minimum_bytes if limits else None
            minimum = fields.integer("minimum_bytes", low=1, high=most)
        settings = cls(
            set_by=fields.text("set_by"),
            set_at=fields.text("set_at"),
            weight=optional(
                "weight",
                limits.minimum_weight if limits else 0,
                limits.maximum_weight if limits else None,
            ),
            backend_latency_seconds=optional(
                "backend_latency_seconds",
                0,
                limits.maximum_backend_latency_seconds if limits else None,
            ),
            minimum_bytes=minimum,
            latency_bound_seconds=optional("latency_bound_seconds", 0, None, above=0),
        )
        fields.done()
        try:
            datetime.fromisoformat(settings.set_at)
        except ValueError as error:
            raise fields.refuse("set_at", f"must be a time, not {settings.set_at!r}") from error
        if len(settings.set_by) > 200:
            raise fields.refuse("set_by", "must have 200 characters at most")
        return settings


def _or_infinite(value: float | None) -> float:
    return float("inf") if value is None else value


def now_text() -> str:
    """The time, as ``set_at`` has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
