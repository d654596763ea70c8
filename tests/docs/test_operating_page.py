"""The commands of ``docs/operate/operating.md`` and ``teams.md`` are commands; the glossary has
their words."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sidecar.base.glossary import WORDS
from sidecar.commands.parser import COMMANDS, make_parser
from sidecar.preflight.rights import acl_line

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "\n".join((DOCS / "operate" / f"{name}.md").read_text() for name in ("operating", "teams"))
GLOSSARY = (DOCS / "start" / "glossary.md").read_text()
BLOCKS = "\n".join(re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
TYPED = re.findall(r"^spreds .*$", BLOCKS, re.MULTILINE)


@pytest.mark.parametrize("line", TYPED)
def test_each_command_can_be_typed(line: str) -> None:
    assert make_parser().parse_args(shlex.split(line)[1:]).execute


def test_each_command_of_an_operator_is_there() -> None:
    told = {line.split()[1] for line in TYPED}
    # How teams set weights stands in the README; traces and installing have pages of their own.
    assert set(COMMANDS) - told <= {"mrc", "completion", "module"}
    assert "spreds completion bash" in BLOCKS


def test_the_words_are_those_of_the_glossary() -> None:
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", GLOSSARY, re.MULTILINE)
    assert dict(rows[1:]) == WORDS


def test_the_user_is_the_one_that_is_printed() -> None:
    assert acl_line() in BLOCKS
