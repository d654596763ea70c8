"""``docs/start/look.md``: its options, its user and its example are those of the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sidecar.commands.parser import make_parser
from sidecar.look.look_rights import acl_line

TEXT = (Path(__file__).parents[2] / "docs" / "start" / "look.md").read_text()
EXAMPLE = re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)[0]
TYPED = [*re.findall(r"^\$ (spreds .*?[^\\])$", EXAMPLE, re.M | re.S)]
OPTIONS = re.findall(r"^\| (`--.*?) \|", TEXT, re.MULTILINE)


def test_the_user_is_the_one_that_is_enough() -> None:
    assert acl_line() in TEXT


@pytest.mark.parametrize("words", OPTIONS)
def test_each_option_is_one(words: str) -> None:
    for option in re.findall(r"`(--[^`]*)`", words):
        typed = option.replace("NAME=", "pages=").split()
        assert make_parser(["look"]).parse_args(["look", *typed]).execute


def test_the_example_can_be_typed_and_its_answer_is_one_screen() -> None:
    assert TYPED
    for line in TYPED:
        assert make_parser().parse_args(shlex.split(line.replace("\\\n", " "))[1:]).execute
    answer = EXAMPLE.partition("\n\n")[2] if "\\\n" in EXAMPLE else EXAMPLE
    assert len(answer.splitlines()) <= 24
    assert max(map(len, EXAMPLE.splitlines())) <= 100
