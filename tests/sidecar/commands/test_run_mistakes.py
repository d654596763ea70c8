"""``spreds run`` with what an operator gets wrong: one sentence and an exit code, no traceback."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config.node import load_config
from sidecar.state.node_lock import NodeLockedError, node_lock
from tests.sidecar.fixtures import WriteNode

CLOUD = """[controller]
kind = "auto"
observations_bucket = "observations"
plans_bucket = "plans"
topic_arn = "arn:aws:sns:us-east-1:123456789012:plans"
delivery = "http"
listen = "127.0.0.1:{port}"
"""


@pytest.fixture
def path(write_node: WriteNode) -> Path:
    # Nobody is there: what is wrong is found before a server is asked.
    return write_node({"a": "redis://127.0.0.1:1"})


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield int(other.getsockname()[1])


def _refused(path: Path, code: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Run, be refused, and return the sentence."""
    assert main(["run", str(path)]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    (sentence,) = [line for line in printed.err.splitlines() if line.startswith("spreds: ")]
    assert printed.err.splitlines()[-1] == sentence
    return sentence


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_configuration_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Is a directory" in _refused(tmp_path, 2, capsys)


def test_the_sockets_folder_cannot_be_made(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _change(path, f"ipc://{path.parent}/samples", "ipc:///proc/spreds/samples")
    assert "/proc/spreds/samples" in _refused(path, 1, capsys)


def test_the_state_lies_where_nobody_may_write(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _change(path, "state.json", "/proc/spreds/state.json")
    assert "/proc/spreds/state.json.lock: cannot be locked" in _refused(path, 1, capsys)


def test_the_state_is_a_folder(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path.parent / "state.json").mkdir()
    assert "state.json" in _refused(path, 1, capsys)


def test_a_full_disk_keeps_nobody_from_the_lock(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lock = path.with_name("state.json.lock")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        again = pytest.raises(NodeLockedError, match="unknown")
        with node_lock(load_config(path)), again, node_lock(load_config(path)):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"{lock}: the process id cannot be written: File too large" in caplog.text


def test_the_endpoint_is_no_address_of_this_machine(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _change(path, f'ipc://{path.parent}/samples"', 'tcp://192.0.2.1:5555"\nopen_endpoint = true')
    sentence = _refused(path, 1, capsys)
    assert "sampling.endpoint tcp://192.0.2.1:5555: cannot be bound" in sentence


@pytest.mark.parametrize("endpoint", ["http://", "http://not_a_host_..", "http://localhost:99999"])
def test_the_clouds_address_is_none(
    write_node: WriteNode, endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = f'{CLOUD.format(port=0)}endpoint_url = "{endpoint}"\n'
    path = write_node({"a": "redis://127.0.0.1:1"}, more=more)
    assert endpoint in _refused(path, 2, capsys)


@pytest.mark.parametrize("option", ["socket_timeout=soon", "nonsense=1"])
def test_a_servers_url_has_a_wrong_option(
    path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _change(path, "127.0.0.1:1", f"127.0.0.1:1?{option}")
    sentence = _refused(path, 2, capsys)
    assert "server a: url" in sentence
    assert option.partition("=")[0] in sentence


def test_the_sockets_folder_is_made(path: Path) -> None:
    _change(path, "/samples", "/made/for/samples")
    with node_lock(load_config(path)):
        assert (path.parent / "made" / "for").is_dir()
