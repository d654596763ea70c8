"""The page has the glossary of the commands, and links no word that is not in it."""

from __future__ import annotations

import json
import re
import time

import pytest

from sidecar.base.glossary import WORDS
from sidecar.control.status_document import _clock
from sidecar.web.page import FOLDER, SCRIPTS, load_page


def test_the_page_has_the_words_of_the_commands() -> None:
    (text,) = re.findall(r"const GLOSSARY = (\{.*\});", load_page().body.decode())
    assert json.loads(text) == WORDS
    assert "</" not in text


def test_each_word_that_the_page_links_is_in_the_glossary() -> None:
    linked = {
        word
        for name in SCRIPTS
        for word in re.findall(r'term\("([^"]*)"', (FOLDER / name).read_text("utf-8"))
    }
    assert len(linked) > 5
    assert linked <= WORDS.keys()


def test_the_status_tells_the_servers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ-5:30")
    time.tzset()
    try:
        assert _clock()["utc_offset_seconds"] == 19_800
    finally:
        monkeypatch.undo()
        time.tzset()


def test_each_word_that_a_newcomer_asked_for_is_told() -> None:
    asked = {"planned", "expected", "chance", "guess", "room", "too early to tell"}
    assert asked <= WORDS.keys()
