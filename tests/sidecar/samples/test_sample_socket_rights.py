"""Who may send samples: a server of another user, by the group that both have, and nobody else."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis

from sidecar.base.metrics import Metrics
from sidecar.config.node import load_config
from sidecar.samples.endpoint import bind_endpoint
from solver_lambda.documents.reader import DocumentError
from tests.sidecar.fixtures import WriteNode
from tests.sidecar.sidecar_process import sidecar_process
from workloads.background_work import in_background
from workloads.local_node import wait_until
from workloads.local_server import built

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root, to run a server as another user"
)
NOBODY, OTHER = pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("daemon").pw_uid
GROUP = grp.getgrnam("games").gr_gid


@pytest.fixture
def folder() -> Iterator[Path]:
    """That other users can reach, unlike a test's own."""
    made = Path(tempfile.mkdtemp(prefix="spreds-rights-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def _connects(path: Path, user: int, *groups: int) -> bool:
    """Connect in its own process: the interpreter may be in a folder that only root can read."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups(groups)
            os.setgid(user)
            os.setuid(user)
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
            code = 0
        except PermissionError:
            code = 13
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 13)
    return code == 0


@as_root
def test_members_of_the_group_connect_and_nobody_else(folder: Path) -> None:
    path = folder / "run" / "samples"
    with bind_endpoint(f"ipc://{path}", Metrics(), GROUP):
        assert _connects(path, NOBODY, GROUP)
        assert not _connects(path, OTHER)
        for made, mode in ((path, 0o660), (path.parent, 0o750)):
            assert (made.stat().st_gid, made.stat().st_mode & 0o777) == (GROUP, mode)
    assert (folder.stat().st_mode & 0o777) == 0o755


@as_root
def test_a_folder_that_was_there_stays_as_it_is(folder: Path) -> None:
    """It may be /run."""
    with bind_endpoint(f"ipc://{folder}/samples", Metrics(), GROUP):
        assert not _connects(folder / "samples", OTHER)
        assert _connects(folder / "samples", NOBODY, GROUP)
    assert (folder.stat().st_gid, folder.stat().st_mode & 0o777) == (0, 0o755)


@as_root
def test_a_server_of_another_user_sends_its_samples(folder: Path, write_node: WriteNode) -> None:
    """The whole way: ``spreds run`` as root, Redis as nobody."""
    data = folder / "redis"
    data.mkdir()
    os.chown(data, NOBODY, GROUP)
    binary = folder / "redis-server"  # the build's folder may not be everybody's
    shutil.copy(built("bin/redis-server"), binary)
    server = subprocess.Popen(
        [
            binary,
            *f"--port 0 --unixsocket {data}/s.sock --maxmemory 24mb".split(),
            *("--save", "", "--maxmemory-policy", "allkeys-lru"),
        ],
        user=NOBODY,
        group=NOBODY,
        extra_groups=[GROUP],
        cwd=data,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until((data / "s.sock").is_socket, lambda: "no socket")
        path = write_node({"s0": f"unix://{data}/s.sock"})
        endpoint = f'endpoint = "ipc://{folder}/run/samples"\ngroup = "games"'
        lines = path.read_text().splitlines()
        lines = [endpoint if line.startswith("endpoint") else line for line in lines]
        path.write_text(
            "\n".join(lines).replace(
                "[controller]", '[cycle]\nsamples = 20\nmaximum_age = "1min"\n[controller]'
            )
        )
        with sidecar_process(path) as sidecar:
            sidecar.read_until("initial sizes")
            with in_background(partial(_request, data / "s.sock")):
                sidecar.read_until("observed: cycle")  # due after 20 samples, or in a minute
            assert sidecar.end() == 0
    finally:
        server.kill()
        server.wait()


def _request(path: Path, stop: threading.Event) -> None:
    with redis.Redis(unix_socket_path=str(path)) as client:
        while not stop.wait(0.02):
            for key in range(100):
                client.get(f"key{key}")


@as_root
def test_who_is_not_a_member_is_told_so(folder: Path) -> None:
    os.chown(folder, OTHER, OTHER)
    program = (
        "import os, sys; from sidecar.samples.endpoint import bind_endpoint;"
        "from sidecar.base.metrics import Metrics;"
        f"os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER});"
        "bind_endpoint(sys.argv[1], Metrics(), int(sys.argv[2])).__enter__()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, f"ipc://{folder}/samples", str(GROUP)],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    last = ended.stderr.splitlines()[-1]
    assert "sampling.group" in last
    assert f"is the user {OTHER} a member of it?" in last


def test_the_socket_is_gone_when_it_is_closed_unless_it_is_anothers(tmp_path: Path) -> None:
    path = tmp_path / "samples"
    with bind_endpoint(f"ipc://{path}", Metrics()):
        assert path.is_socket()
    assert not path.exists()
    with bind_endpoint(f"ipc://{path}", Metrics()):
        path.rename(tmp_path / "ours")
        path.write_text("another's")
    assert path.read_text() == "another's"


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])
@pytest.mark.parametrize(("group", "modes"), [(None, (0o700, 0o600)), ("own", (0o750, 0o660))])
def test_the_program_sets_the_modes_whatever_the_umask_is(
    mask: int, group: str | None, modes: tuple[int, int], tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "run" / "samples"
    before = os.umask(mask)
    try:
        with bind_endpoint(f"ipc://{path}", Metrics(), os.getegid() if group else None):
            assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o755
            assert tuple(one.stat().st_mode & 0o777 for one in (path.parent, path)) == modes
    finally:
        os.umask(before)


def test_what_another_put_there_is_left_alone(tmp_path: Path) -> None:
    """A link to a dead socket is no socket of ours."""
    path = tmp_path / "samples"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))
    path.symlink_to(tmp_path / "dead")
    with (
        pytest.raises(OSError, match="is not a socket"),
        bind_endpoint(f"ipc://{path}", Metrics()),
    ):
        pass
    assert path.is_symlink()


@as_root
def test_a_dead_socket_of_another_user_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "samples"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    os.chown(path, NOBODY, GROUP)
    with (
        pytest.raises(OSError, match=f"left behind by uid {NOBODY}"),
        bind_endpoint(f"ipc://{path}", Metrics()),
    ):
        pass
    assert path.is_socket()


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:9", "tcp://192.0.2.1:9", "ipc://@name"])
def test_an_endpoint_without_an_owner_wants_a_line_that_says_so(
    endpoint: str, write_node: WriteNode
) -> None:
    path = write_node({"s0": "redis://127.0.0.1"})
    own = f'endpoint = "ipc://{path.parent}/samples"'
    path.write_text(path.read_text().replace(own, f'endpoint = "{endpoint}"'))
    with pytest.raises(DocumentError, match=r"sampling.endpoint .*everybody .*open_endpoint"):
        load_config(path)
    path.write_text(
        path.read_text().replace(f'"{endpoint}"', f'"{endpoint}"\nopen_endpoint = true')
    )
    assert load_config(path).sampling.endpoint == endpoint


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("ipc:///run/x", "no group of this machine"),
        ("tcp://127.0.0.1:9", "only a file has a group"),
    ],
)
def test_a_wrong_group_is_refused(endpoint: str, words: str, write_node: WriteNode) -> None:
    path = write_node({"s0": "redis://127.0.0.1"})
    text = path.read_text().replace("rate = 0.5", 'rate = 0.5\ngroup = "no-such-group"')
    lines = [
        f'endpoint = "{endpoint}"\nopen_endpoint = true' if line.startswith("endpoint") else line
        for line in text.splitlines()
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(DocumentError, match=words) as refused:
        load_config(path)
    assert "sampling.group" in str(refused.value)
