"""Types of command-line arguments: what is wrong is said in one sentence."""

from __future__ import annotations

import argparse

from solver_lambda.documents.units import parse_duration


def seconds(text: str) -> float:
    """Of a duration such as ``200ms``."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)
