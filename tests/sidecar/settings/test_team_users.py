"""Teams set what they want without the operator's file and its secrets, as users of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.base.metrics import Metrics
from sidecar.cli import main
from sidecar.config.node import SidecarConfig, load_config
from sidecar.settings.settings_reader import SettingsReader
from sidecar.storage.store import FolderStore
from tests.sidecar.fixtures import WriteNode

GROUP, TEAM, OTHER_TEAM, SIDECAR = 54_321, 54_322, 54_323, 54_324
STRANGER = 54_325

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be other users")


@contextmanager
def user(uid: int, group: int | None = GROUP, umask: int = 0o077) -> Iterator[None]:
    """Act as this user, whose own group has its number, and who is in ``group`` as well."""
    groups, before = os.getgroups(), os.umask(umask)
    os.setgroups([group] if group is not None else [])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
        os.umask(before)


@pytest.fixture
def tmp_path(folder_of_all: Path) -> Path:
    return folder_of_all


@pytest.fixture
def path(write_node: WriteNode, tmp_path: Path) -> Path:
    """Write files as docs/operate/teams.md says: the operator alone reads it and its secrets."""
    (tmp_path / "a.secret").write_text("hunter2")
    keys = 'password_file = "a.secret"\nmaximum = "16mb"'
    more = '[controller]\nkind = "embedded"\nfolder = "documents"\n'
    made = write_node({"a": "redis://127.0.0.1:1"}, more=more, server_keys=keys)
    for secret in (made, tmp_path / "a.secret"):
        secret.chmod(0o600)
    folder = tmp_path / "documents" / "settings" / "n1"
    folder.mkdir(parents=True)
    for parent in (folder.parent, folder.parent.parent):
        parent.chmod(0o755)
    os.chown(folder, 0, GROUP)
    folder.chmod(0o2770)
    return made


@pytest.fixture
def config(path: Path) -> SidecarConfig:
    return load_config(path)


def _set(path: Path, *words: str) -> int:
    folder = str(path.parent / "documents")
    return main(["weights", "set", "a", "--node", "n1", "--folder", folder, *words])


def _read(path: Path, config: SidecarConfig) -> dict[str, float]:
    reader = SettingsReader(FolderStore(path.parent / "documents"), config, Metrics())
    with user(SIDECAR):
        found = reader.read()
    return dict(found["a"].values) if found else {}


def test_a_team_sets_and_the_sidecar_reads(path: Path, config: SidecarConfig) -> None:
    with user(TEAM):
        with pytest.raises(PermissionError):
            (path.parent / "a.secret").read_text()
        assert main(["weights", "set", "a", "--config", str(path), "--weight", "3"]) == 2
        assert _set(path, "--weight", "3") == 0
    assert _read(path, config) == {"weight": 3.0}
    with user(OTHER_TEAM, umask=0o022):
        assert _set(path, "--minimum", "4mb") == 0
    assert _read(path, config) == {"weight": 3.0, "minimum_bytes": 4 << 20}


def test_who_is_in_no_team_may_neither_set_nor_look(
    path: Path, config: SidecarConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    with user(STRANGER, group=None):
        assert _set(path, "--weight", "3") == 1
    folder = path.parent / "documents" / "settings" / "n1"
    assert "Permission denied" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
    assert _read(path, config) == {}


def test_no_umask_makes_a_folder_of_documents_that_others_may_write(tmp_path: Path) -> None:
    with user(0, umask=0):
        FolderStore(tmp_path / "documents").put("settings/n/pages.json", b"{}")
    folders = ("documents", "documents/settings", "documents/settings/n")
    assert [(tmp_path / one).stat().st_mode & 0o777 for one in folders] == [0o755] * 3
