"""Types of command-line arguments: what is wrong is said in one sentence."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from solver_lambda.documents.units import parse_duration

PICTURES = (".pdf", ".png", ".svg")


def whole_numbers(text: str) -> tuple[int, ...]:
    """At least 1 each, with commas between them."""
    return tuple(positive(part) for part in text.split(","))


def seed(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, not {text!r}")
    return int(text)


def output_file(text: str) -> Path:
    """A file that can be written when the work is done; checked before it begins."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written")
    return path


def picture_file(text: str) -> Path:
    """The same, with a suffix that tells a format."""
    if not text.endswith(PICTURES):
        raise argparse.ArgumentTypeError(f"must end in {', '.join(PICTURES)}, not {text!r}")
    return output_file(text)


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
