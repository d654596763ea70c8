"""A node's file that no reader should choke on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.config.node import load_config
from solver_lambda.documents.reader import MAX_SERVERS, DocumentError
from tests.sidecar.fixtures import WriteNode


@pytest.mark.parametrize("value", ["9" * 4301, "[" * 9000 + "]" * 9000, "0x" + "f" * 9000])
def test_an_endless_value_is_refused_in_a_short_sentence(tmp_path: Path, value: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(f"node = {value}\n")
    with pytest.raises(DocumentError) as error:
        load_config(path)
    assert str(error.value).startswith(str(path))
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"minimum = {1 << 62}", "minimum must be at most 2305843009213693952 bytes"),
        (f'minimum = "{"9" * 400}"', "minimum must be at most 2305843009213693952 bytes"),
        (f'backend_latency = "{"9" * 400}ms"', "backend_latency must be at most 1e+19 s"),
        ("weight = 1e999", "weight must be a finite number"),
    ],
)
def test_what_a_document_may_not_have_is_refused(
    write_node: WriteNode, line: str, words: str
) -> None:
    with pytest.raises(DocumentError) as error:
        load_config(write_node({"a": "redis://127.0.0.1:1"}, server_keys=line))
    assert words in str(error.value)
    assert len(str(error.value)) < 1000


def test_a_minimum_of_0_is_one_byte(write_node: WriteNode) -> None:
    path = write_node({"a": "redis://127.0.0.1:1"}, server_keys="minimum = 0")
    assert load_config(path).servers[0].minimum_bytes == 1


def test_servers_are_counted_before_they_are_compared(write_node: WriteNode) -> None:
    urls = {f"s{number}": f"redis://127.0.0.1:{number}" for number in range(MAX_SERVERS + 1)}
    with pytest.raises(DocumentError, match="server must have 1024 tables at most, not 1025"):
        load_config(write_node(urls, budget="9gb"))
