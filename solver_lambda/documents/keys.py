"""Says where the documents lie in S3 (or, without a cloud, in a folder): one prefix for each
node."""

from __future__ import annotations

import re

from solver_lambda.documents.reader import DocumentError, Fields, shown

OBSERVATIONS_PREFIX = "observations"
PLANS_PREFIX = "plans"
SETTINGS_PREFIX = "settings"
REPORTS_PREFIX = "reports"
NODE_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# Keys have twelve digits for it.
MOST_CYCLE = 10**12 - 1
SERVER_PATTERN = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_OBSERVATION_KEY = re.compile(
    rf"{OBSERVATIONS_PREFIX}/(?P<node>{NODE_PATTERN.pattern})/(\d{{12}})\.json"
)


def observation_key(node: str, cycle: int) -> str:
    """Return the key of an observation, in the observations bucket."""
    return f"{OBSERVATIONS_PREFIX}/{node}/{cycle:012d}.json"


def plan_key(node: str, cycle: int) -> str:
    """Return the key of the plan that answers it, in the plans bucket: one observation, one
    plan."""
    return f"{PLANS_PREFIX}/{node}/{cycle:012d}.json"


def settings_key(node: str, server: str) -> str:
    """Return the key of a team's settings for one server, in the observations bucket."""
    return f"{SETTINGS_PREFIX}/{node}/{server}.json"


def settings_prefix(node: str) -> str:
    """Return what the keys of all settings of a node begin with, in the observations bucket."""
    return f"{SETTINGS_PREFIX}/{node}/"


def settings_marker_key(node: str) -> str:
    """Return the key of the object that is written after each change of a node's settings. One look
    at it tells whether there was any. No server's settings can have this key."""
    return f"{SETTINGS_PREFIX}/{node}/changed"


def report_key(node: str, server: str) -> str:
    """Return the key of what became of a server's settings, for its team, in the observations
    bucket."""
    return f"{REPORTS_PREFIX}/{node}/{server}.json"


def parse_observation_key(key: str) -> tuple[str, int]:
    """Return node and cycle of an observation's key.

    Raises:
        DocumentError: it is not the key of an observation.
    """
    match = _OBSERVATION_KEY.fullmatch(key)
    if not match:
        raise DocumentError(f"{shown(key)} is not the key of an observation")
    return match["node"], int(match[match.lastindex or 0])


def read_node(fields: Fields) -> str:
    """Return the ``node`` of a document. Raises DocumentError."""
    return _matching(fields, "node", NODE_PATTERN)


def read_server(fields: Fields) -> str:
    """Return the ``name`` of a server in a document. Raises DocumentError."""
    return _matching(fields, "name", SERVER_PATTERN)


def _matching(fields: Fields, key: str, pattern: re.Pattern[str]) -> str:
    value = fields.text(key)
    if not pattern.fullmatch(value):
        raise fields.refuse(key, f"must match {pattern.pattern}, not {shown(value)}")
    return value
