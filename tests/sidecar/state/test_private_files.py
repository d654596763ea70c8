"""Files that only the sidecar's own user may change."""

from __future__ import annotations

import json
import os
import pwd
import socket
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sidecar.base.metrics import Metrics
from sidecar.base.private_files import make_own_folder, open_lock, who_else_may_write, whose_alone
from sidecar.cli import main
from sidecar.config.node import load_config
from sidecar.controllers.configured_controller import make_controller
from sidecar.samples.endpoint import bind_endpoint
from sidecar.state.node_lock import node_lock
from sidecar.web.unix_socket import UnixSocket
from solver_lambda.documents.reader import DocumentError
from solver_lambda.secret import SecretError, read_secret, why_not_secret
from tests.sidecar.fixtures import WriteNode

NOBODY = 65_534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def test_a_lock_is_made_for_its_user_alone_and_keeps_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    before = os.umask(0)
    try:
        open_lock(path).close()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o7777 == 0o600
    path.write_text("4711\n")
    path.chmod(0o666)
    with open_lock(path) as file:
        assert file.read() == b"4711\n"
    assert path.stat().st_mode & 0o7777 == 0o600


def _symbolic(path: Path, other: Path) -> None:
    path.symlink_to(other)


def _hard(path: Path, other: Path) -> None:
    path.hardlink_to(other)


def _pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, _: Path) -> None:
    path.mkdir()


def _socket(path: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize("put", [_symbolic, _hard, _pipe, _folder, _socket])
def test_what_is_no_lock_is_refused_and_left_as_it_is(
    put: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    other = tmp_path / "authorized_keys"
    other.write_text("a key\n")
    other.chmod(0o644)
    put(tmp_path / "lock", other)
    with pytest.raises(OSError, match=r"lock: cannot be locked: \w"):
        open_lock(tmp_path / "lock")
    assert other.read_text() == "a key\n"
    assert other.stat().st_mode & 0o7777 == 0o644


def test_a_dangling_link_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        open_lock(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()


@as_root
def test_another_users_file_is_no_lock_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("")
    path.chmod(0o600)
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(OSError, match=f"another user .uid {NOBODY}"):
        open_lock(path)
    with path.open() as file:
        assert why_not_secret(file.fileno()) is None  # root reads it for its owner's sidecar
        os.seteuid(NOBODY - 1)
        try:
            assert "another user" in (why_not_secret(file.fileno()) or "")
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (0o700, None),
        (0o755, None),
        (0o777, "everybody"),
        # What is in it can be taken first by others, if not exchanged.
        (0o1777, "everybody"),
        (0o702, "everybody"),
    ],
)
def test_a_folder_is_ours_if_nobody_else_may_write_to_it(
    mode: int, words: str | None, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    found = who_else_may_write(folder)
    assert found is None if words is None else words in (found or "") and str(folder) in found
    # And one that is still to be made there: above it, the sticky bit is enough.
    below = who_else_may_write(folder / "a" / "b")
    assert (below is None) == (words is None or mode == 0o1777)


@as_root
def test_a_group_or_an_owner_may_exchange_what_lies_below(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "own").mkdir(parents=True)
    assert who_else_may_write(folder / "own") is None
    os.chown(folder, 0, NOBODY)
    folder.chmod(0o770)
    assert "group" in (who_else_may_write(folder / "own") or "")
    folder.chmod(0o750)
    assert who_else_may_write(folder / "own") is None
    os.chown(folder, NOBODY, 0)
    assert f"belongs to the user {NOBODY}" in (who_else_may_write(folder / "own") or "")


def _set_list(
    path: Path, entry: tuple[int, int, int], mask: int = 7, kind: str = "access", others: int = 5
) -> None:
    """Set a list as ``setfacl -m u:nobody:rwx`` makes one."""
    nobody = 0xFFFFFFFF
    every = [(0x01, 7, nobody), (0x04, others, nobody), (0x20, others, nobody)]
    entries = sorted([*every, entry, (0x10, mask, nobody)])
    text = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
    try:
        os.setxattr(path, f"system.posix_acl_{kind}", text)
    except OSError:
        pytest.skip("the file system knows no access control lists")


@as_root
def test_who_is_named_in_a_secrets_list_makes_it_none(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("a secret")
    for number, words in ((0, None), (NOBODY, f"gives it to the user {NOBODY}")):
        path.chmod(0o600)
        _set_list(path, (0x02, 4, number), mask=4, others=0)
        if words is None:
            assert read_secret(path) == "a secret"
            continue
        with pytest.raises(SecretError, match=words):
            read_secret(path)


@as_root
def test_a_list_that_is_handed_on_counts_whatever_its_mask_is(tmp_path: Path) -> None:
    """What is made in the folder has it, and a mode that is set opens its mask."""
    own = tmp_path / "own"
    own.mkdir()
    _set_list(own, (0x02, 5, NOBODY), kind="default")
    assert who_else_may_write(own) is None
    _set_list(own, (0x02, 7, NOBODY), mask=0, kind="default")
    words = f"default access control list lets the user {NOBODY} write to what is made in {own}"
    assert words in (who_else_may_write(own) or "")
    assert who_else_may_write(tmp_path) is None


@as_root
@pytest.mark.parametrize(
    ("tag", "number", "rights", "mask", "words"),
    [
        (0x02, NOBODY, 7, 7, f"an access control list lets the user {NOBODY} write to"),
        (0x02, NOBODY, 7, 5, None),  # the mask takes it
        (0x02, NOBODY, 5, 7, None),
        (0x02, 0, 7, 7, None),
        (0x08, NOBODY, 7, 7, "an access control list lets the members of group"),
    ],
)
def test_an_access_control_list_counts_as_a_mode_does(
    tmp_path: Path, tag: int, number: int, rights: int, mask: int, words: str | None
) -> None:
    """The mode has the mask in place of the group."""
    _set_list(tmp_path, (tag, rights, number), mask)
    found = who_else_may_write(tmp_path)
    assert found is None if words is None else words in (found or "")


def test_a_link_to_a_folder_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "shared")
    assert "everybody" in (who_else_may_write(tmp_path / "link") or "")


@pytest.fixture
def sticky() -> Iterator[Path]:
    """A folder where everybody may make things, as /tmp is, and on the way to it nobody else."""
    with tempfile.TemporaryDirectory(prefix="spreds-sticky-") as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


def _as_nobody(*command: object) -> None:
    nobody = ["--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    subprocess.run(["setpriv", *nobody, *map(str, command)], check=True)


@as_root
def test_a_folder_that_a_stranger_makes_first_is_used_by_nobody(sticky: Path) -> None:
    """After it was judged: it was still to be made."""
    folder = sticky / "spreds" / "run"
    assert who_else_may_write(folder) is None
    _as_nobody("mkdir", "-m", "0777", sticky / "spreds")
    words = f"{sticky}/spreds belongs to the user {NOBODY}"
    with pytest.raises(OSError, match=words):
        UnixSocket(folder / "orders")
    with pytest.raises(OSError, match=words), bind_endpoint(f"ipc://{folder}/samples", Metrics()):
        pass
    assert list((sticky / "spreds").iterdir()) == []
    _as_nobody("mkdir", "-m", "0777", folder)
    with pytest.raises(OSError, match=words):
        make_own_folder(folder)


@as_root
def test_teams_settings_are_not_read_in_a_strangers_folder(
    sticky: Path, write_node: WriteNode, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether he makes it before the sidecar looks, or after."""
    more = f'[controller]\nkind = "embedded"\nfolder = "{sticky}/documents"\n'
    path = write_node({"a": "redis://127.0.0.1:1"}, more=more)
    config = load_config(path)
    words = f"controller.folder: {sticky}/documents belongs to the user {NOBODY}"
    with node_lock(config):
        _as_nobody("mkdir", "-m", "0777", sticky / "documents")
        with pytest.raises(DocumentError, match=words):
            make_controller(config, lambda *_: None, Metrics())
    with pytest.raises(OSError, match=words), node_lock(config):
        pass
    assert main(["check", str(path), "--connect", "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)
    (found,) = [one for one in findings if one["where"] == "controller.folder"]
    assert found["level"] == "problem"
    (sticky / "documents").rmdir()
    make_controller(config, lambda *_: None, Metrics())
    assert (sticky / "documents").stat().st_mode & 0o777 == 0o700


@as_root
def test_a_link_that_a_stranger_can_turn_is_refused(sticky: Path, tmp_path: Path) -> None:
    """Also while it leads to a folder of our own."""
    _as_nobody("ln", "-s", tmp_path, sticky / "link")
    words = f"{sticky}/link belongs to the user {NOBODY}"
    assert who_else_may_write(sticky / "link") == words
    assert who_else_may_write(sticky / "link" / "a" / "b") == words
    (sticky / "ours").symlink_to(sticky / "link" / "a")
    assert who_else_may_write(sticky / "ours") == words
    with pytest.raises(OSError, match=words):
        make_own_folder(sticky / "link" / "a")
    assert list(tmp_path.iterdir()) == []


def test_links_of_our_own_are_followed_to_their_end(sticky: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (sticky / "absolute").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "up").symlink_to("../a/.")
    assert who_else_may_write(sticky / "absolute" / "up" / "missing") is None
    assert who_else_may_write(sticky / "absolute" / "..") is None
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    for name, shows_at in (("here", "."), ("back", "../shared"), ("itself", "itself")):
        (tmp_path / "shared" / name).symlink_to(shows_at)
        assert who_else_may_write(tmp_path / "shared" / name) is not None
    with pytest.raises(OSError, match="everybody may write to"):
        make_own_folder(tmp_path / "shared" / "missing" / "..")


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        (0o600, None),
        (0o400, None),
        (0o640, None),
        (0o644, "read"),
        (0o666, "read"),
        (0o604, "read"),
        (0o602, "change"),
        (0o660, "its group may change"),
    ],
)
def test_a_secret_is_read_by_nobody_else_and_changed_by_nobody_else(
    mode: int, words: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "secret"
    path.write_text("hunter2")
    path.chmod(mode)
    with path.open() as file:
        found = why_not_secret(file.fileno())
    assert found is None if words is None else words in (found or "")


def test_a_pipe_of_a_shell_may_hold_a_secret() -> None:
    reads, writes = os.pipe()
    try:
        assert why_not_secret(reads) is None
    finally:
        os.close(reads)
        os.close(writes)


@pytest.mark.parametrize(("mode", "words"), [(0o666, "others may read"), (0o620, "its group")])
def test_a_pipe_that_others_may_write_to_holds_no_secret(
    mode: int, words: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "token")
    (tmp_path / "token").chmod(mode)
    with pytest.raises(SecretError, match=f"is no secret: {words}"):
        read_secret(tmp_path / "token")


@as_root
def test_a_strangers_pipe_holds_no_secret(sticky: Path) -> None:
    _as_nobody("mkfifo", "-m", "0600", sticky / "token")
    held = os.open(sticky / "token", os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.seteuid(NOBODY - 1)
        assert f"another user (uid {NOBODY})" in (why_not_secret(held) or "")
    finally:
        os.seteuid(0)
        os.close(held)


def test_a_pipe_is_waited_for_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    os.mkfifo(path, 0o600)
    with subprocess.Popen(["sh", "-c", f"(printf hun; printf 'ter2\n') > {path}"]):
        assert read_secret(path) == "hunter2"
    monkeypatch.setattr("solver_lambda.secret.WAIT_SECONDS", 0.05)
    with pytest.raises(SecretError, match=r"it did not end within 0\.05 seconds"):
        read_secret(path)
    writes = os.open(path, os.O_RDWR)  # who writes a part, and keeps it open
    try:
        os.write(writes, b"hun")
        with pytest.raises(SecretError, match="did not end"):
            read_secret(path)
    finally:
        os.close(writes)


@as_root
def test_root_may_ask_for_the_user_of_a_sidecar(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    assert f"belongs to the user {NOBODY}" in (who_else_may_write(folder) or "")
    assert who_else_may_write(folder, NOBODY) is None
    folder.chmod(0o777)
    assert "everybody" in (who_else_may_write(folder, NOBODY) or "")


@as_root
def test_a_primary_group_that_others_have_too_is_not_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    folder.chmod(0o770)
    own = [one for one in pwd.getpwall() if one.pw_gid != NOBODY or one.pw_uid == NOBODY]
    monkeypatch.setattr(pwd, "getpwall", lambda: own)
    assert who_else_may_write(folder, NOBODY) is None
    # As Debian has it for users of the system that were made without a group.
    other = pwd.struct_passwd(("other", "x", 998, NOBODY, "", "/", "/bin/false"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [*own, other])
    assert "group" in (who_else_may_write(folder, NOBODY) or "")


def test_only_the_user_whose_alone_a_folder_is_can_be_told_from_others(sticky: Path) -> None:
    assert whose_alone(Path("/usr/lib")) == 0
    assert whose_alone(sticky) is None
    (sticky / "own").mkdir(mode=0o700)
    # Whoever came first could have made it.
    assert whose_alone(sticky / "own") is None
    assert whose_alone(sticky / "nothing") is None


@as_root
def test_a_folder_that_a_group_may_make_is_nobodys_alone() -> None:
    """The sticky bit keeps him from exchanging it, not from being first."""
    with TemporaryDirectory(dir="/run") as name:
        shared, own = Path(name), Path(name) / "own"
        own.mkdir(mode=0o700)
        os.chown(own, NOBODY, NOBODY)
        shared.chmod(0o755)
        assert whose_alone(own) == NOBODY
        os.chown(shared, 0, 4711)
        shared.chmod(0o1775)
        assert whose_alone(own) is None
