"""Has teams' own settings for their server: one small document each, in the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sidecar.config.settings_limits import SettingsLimits
from solver_lambda.documents.json_text import check_kind, parse_json
from solver_lambda.documents.reader import shown
from solver_lambda.documents.server_settings import SERVER_SETTINGS

KIND = "spreds.settings"
VERSION = 1
MAX_SETTINGS_BYTES = 16 * 1024


@dataclass(frozen=True)
class TeamSettings:
    """Says what a team wants.

    Attributes:
        set_by, set_at: who and when (ISO 8601).
        values: by their names in ``server_settings``; the operator's hold where there is none.
    """

    set_by: str
    set_at: str
    values: Mapping[str, float]

    @property
    def version(self) -> str:
        """Names this content, with its time: plans say which version they used."""
        return f"{self.set_at}-{hashlib.sha256(self.dumps()).hexdigest()[:8]}"

    @property
    def minimum_bytes(self) -> int | None:
        """Return the minimum, which nobody else can be given."""
        minimum = self.values.get("minimum_bytes")
        return None if minimum is None else int(minimum)

    def to_json(self) -> dict[str, Any]:
        who = {"set_by": self.set_by, "set_at": self.set_at}
        # In one order, so that one content has one version.
        names = [setting.name for setting in SERVER_SETTINGS if setting.name in self.values]
        values = {name: self.values[name] for name in names}
        return {"kind": KIND, "version": VERSION, **who, **values}

    def dumps(self) -> bytes:
        """Return the document as it is stored."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False).encode()

    @classmethod
    def loads(
        cls, text: bytes | str, source: str, limits: SettingsLimits | None = None
    ) -> TeamSettings:
        """Read and check a document, also against the operator's limits if they are known.

        Raises:
            DocumentError: with the key and value at fault.
        """
        fields = parse_json(text, source, MAX_SETTINGS_BYTES)
        check_kind(fields, KIND, VERSION)

        def limit(name: str | None) -> Any:
            return getattr(limits, name) if limits and name else None

        read = {
            setting.name: setting.read(fields, limit(setting.least) or 0, limit(setting.most))
            for setting in SERVER_SETTINGS
        }
        settings = cls(
            set_by=fields.text("set_by", most=200),
            set_at=fields.text("set_at", most=64),
            values={name: value for name, value in read.items() if value is not None},
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
    """Return the time, as ``set_at`` has it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
