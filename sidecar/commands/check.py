"""``spreds check CONFIG``: the effective configuration, or the sentence that refuses it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sidecar.config.node import load_config


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = commands.add_parser("check", help="check a configuration and print what it means")
    parser.add_argument("config", metavar="CONFIG", help="the node's TOML file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print the configuration with its defaults and in base units. Raises DocumentError."""
    table = asdict(load_config(options.config))
    # Where the file has it, and by its name.
    table["planning"]["forecast"] = "competing" if table.pop("forecasts") else "last"
    for server in table["servers"]:
        server["password"] = "(set)" if server["password"] is not None else None
    if options.json:
        print(json.dumps(table, indent=1, default=str))
    else:
        for line in _lines(table):
            print(line)
    return 0


def _lines(value: object, path: str = "") -> list[str]:
    """One ``path = value`` a line."""
    if isinstance(value, dict):
        return [
            line
            for key, item in value.items()
            for line in _lines(item, f"{path}.{key}" if path else key)
        ]
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        return [
            line for item in value for line in _lines(item, f"{path.rstrip('s')}.{item['name']}")
        ]
    if value is None:
        return [f"{path} = (none)"]
    return [f"{path} = {str(value) if isinstance(value, Path) else json.dumps(value)}"]
