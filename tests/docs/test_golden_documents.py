"""Documents of every version that ever was can be read, today's without a change of a byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.documents import GOLDEN, READERS, VALIDATORS, VERSIONS, todays

FILES = sorted(GOLDEN.glob("*.json"))


def name_of(path: Path) -> str:
    return path.name.partition("-")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_golden_document_is_read(path: Path) -> None:
    READERS[name_of(path)](path.read_bytes(), path.name)
    VALIDATORS[name_of(path)].validate(json.loads(path.read_bytes()))


@pytest.mark.parametrize("name", READERS)
def test_todays_document_is_written_as_it_was_read(name: str) -> None:
    text = todays(name).read_bytes()
    assert READERS[name](text, name).dumps() == text


@pytest.mark.parametrize("name", READERS)
def test_there_is_one_of_each_version(name: str) -> None:
    stems = {path.stem for path in FILES if name_of(path) == name}
    assert {f"{name}-{version}" for version in range(1, VERSIONS[name] + 1)} <= stems
    assert f"{name}-1-first" in stems
