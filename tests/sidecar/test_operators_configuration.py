"""``[operators]`` of a node's file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.config.node import load_config
from sidecar.config.operators import OperatorsConfig
from solver_lambda.documents.reader import DocumentError
from tests.secret_file import write_secret
from tests.sidecar.fixtures import WriteNode

TOKEN = "sixteen-letters!"
Load = Callable[[str], OperatorsConfig]


@pytest.fixture
def load(write_node: WriteNode, tmp_path: Path) -> Load:
    write_secret(tmp_path / "short", "short\n")
    write_secret(tmp_path / "same", 16 * "a")
    write_secret(tmp_path / "token", f"{TOKEN}\n")

    def read(text: str) -> OperatorsConfig:
        more = f'[controller]\nkind = "embedded"\n[operators]\n{text}\n'
        return load_config(write_node({"a": "redis://127.0.0.1:1"}, more=more)).operators

    return read


def test_by_default_there_is_a_socket_beside_the_state_file_and_no_port(
    load: Load, tmp_path: Path, write_node: WriteNode
) -> None:
    assert load("") == OperatorsConfig(socket=tmp_path / "state.json.sock")
    path = write_node({"a": "redis://127.0.0.1:1"})
    assert load_config(path).operators == load("")
    path.write_text(path.read_text().replace('state_file = "state.json"', ""))
    assert load_config(path).operators == OperatorsConfig()


def test_all_can_be_told(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'socket = "s"\ngroup = "root"\nlisten = "[::1]:9736"\ntoken_file = "token"'
    assert load(text) == OperatorsConfig(
        socket=tmp_path / "s", group="root", listen=("::1", 9736), token=TOKEN
    )
    assert TOKEN not in repr(load(text))
    monkeypatch.setenv("T", TOKEN)
    assert load('listen = "localhost:1"\ntoken_env = "T"') == OperatorsConfig(
        socket=tmp_path / "state.json.sock", listen=("localhost", 1), token=TOKEN
    )
    anywhere = load('listen = "0.0.0.0:9736"\nlisten_anywhere = true')
    assert (anywhere.listen, anywhere.anywhere) == (("0.0.0.0", 9736), True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('listen = "0.0.0.0:9736"', "operators.listen is '0.0.0.0:9736', which other machines can"),
        ('listen = "10.0.0.7:1"', "set operators.listen_anywhere = true"),
        ('listen = "9736"', "operators.listen must be HOST:PORT, not '9736'"),
        ('listen = "127.0.0.1:99999"', "operators.listen must be HOST:PORT"),
        ('listen = "somewhere:1"', "operators.listen must have 'localhost' or the number"),
        ('group = "no-such-group-here"', "operators.group is 'no-such-group-here', and this"),
        ('token_file = "nowhere"', "operators.token_file"),
        ('token_file = "short"', "operators.token_file must hold one word of at least 16"),
        ('token_file = "same"', "operators.token_file must hold at least 8 different"),
        ("listen_anywhere = 1", "operators.listen_anywhere must be true or false"),
        ('lisen = "127.0.0.1:1"', "did you mean 'listen'"),
    ],
)
def test_what_is_wrong_is_named(load: Load, text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        load(text)
    assert words in str(caught.value)
    assert "node.toml" in str(caught.value)


def test_another_door_needs_a_restart(write_node: WriteNode) -> None:
    old = load_config(write_node({"a": "redis://127.0.0.1:1"}))
    new = dataclasses.replace(old, operators=OperatorsConfig(listen=("127.0.0.1", 1)))
    assert new.needs_restart_after(old) == ["[operators]"]
