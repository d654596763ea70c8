"""Teams' own settings for their server: one small document each, in the store."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sidecar.config.node import SettingsLimits
from solver_lambda.documents.reader import MOST_BYTES, MOST_NUMBER, check_kind, parse_json, shown

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

        minimum = None
        if fields.has("minimum_bytes"):
            most = limits.maximum_minimum_bytes if limits else MOST_BYTES
            minimum = fields.integer("minimum_bytes", low=0, high=most)
        settings = cls(
            set_by=fields.text("set_by", most=200),
            set_at=fields.text("set_at", most=64),
            weight=fields.optional_number(
                "weight",
                low=limits.minimum_weight if limits else 0,
                high=limits.maximum_weight if limits else MOST_NUMBER,
            ),
            backend_latency_seconds=fields.optional_number(
                "backend_latency_seconds",
                low=0,
                high=limits.maximum_backend_latency_seconds if limits else MOST_NUMBER,
            ),
            minimum_bytes=minimum,
            latency_bound_seconds=fields.optional_number("latency_bound_seconds", low=0, above=0),
        )
        fields.done()
        try:
            datetime.fromisoformat(settings.set_at)
        except ValueError as error:
            raise fields.refuse(
                "set_at", f"must be a time, not {shown(settings.set_at)}"
            ) from error
        return settings


def now_text() -> str:
    """The time, as ``set_at`` has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
