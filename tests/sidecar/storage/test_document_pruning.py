"""Old observations and plans go; teams' settings, and what is not ours, stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.controller_config import KeptDocuments
from sidecar.config.node import load_config
from sidecar.controllers.kept_folder import prune
from sidecar.storage.store import FolderStore
from solver_lambda.documents.keys import observation_key, plan_key, settings_key
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.sidecar_process import sidecar_process
from workloads.local_node import wait_until

NOW = 1_800_000_000.0


def _write(folder: Path, key: str, age_seconds: float) -> Path:
    FolderStore(folder).put(key, b"{}")
    os.utime(folder / key, (NOW - age_seconds, NOW - age_seconds))
    return folder / key


def test_what_is_too_old_goes_and_settings_never(tmp_path: Path) -> None:
    old = [_write(tmp_path, make("n1", 1), 101) for make in (observation_key, plan_key)]
    young = [_write(tmp_path, make("n1", 2), 99) for make in (observation_key, plan_key)]
    others = [
        _write(tmp_path, settings_key("n1", "000000000001"), 1e6),
        _write(tmp_path, plan_key("n2", 1), 1e6),
        _write(tmp_path, "plans/n1/notes.txt", 1e6),
        _write(tmp_path, "plans/n1/sub/000000000001.json", 1e6),
    ]
    assert prune(tmp_path, "n1", KeptDocuments(100.0, 10), NOW) == 2
    assert not [path for path in old if path.exists()]
    assert all(path.exists() for path in [*young, *others])


def test_what_cannot_be_removed_keeps_nothing_else(tmp_path: Path) -> None:
    plans = [_write(tmp_path, plan_key("n1", cycle), 101) for cycle in (1, 2, 3)]
    folder = tmp_path / plan_key("n1", 0)
    folder.mkdir()
    link = tmp_path / plan_key("n1", 4)
    link.symlink_to("nowhere")
    assert prune(tmp_path, "n1", KeptDocuments(100.0, 10), NOW) == 3
    assert not any(path.exists() for path in plans)
    assert folder.is_dir()
    assert link.is_symlink()


@given(st.lists(st.integers(0, 200), max_size=12, unique=True), st.integers(1, 8))
def test_never_more_than_the_number_and_the_youngest_stay(cycles: list[int], number: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for cycle in cycles:
            _write(folder, plan_key("n1", cycle), 0)
        prune(folder, "n1", KeptDocuments(100.0, number), NOW)
        left = sorted(int(path.stem) for path in folder.rglob("*.json"))
        assert left == sorted(cycles)[-number:]


def test_a_folder_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    assert prune(tmp_path / "nowhere", "n1", KeptDocuments()) == 0


@pytest.mark.parametrize("key", ['keep_documents = "0s"', "keep_documents_number = 0"])
def test_nothing_at_all_cannot_be_kept(
    key: str, write_node: WriteNode, capsys: pytest.CaptureFixture[str]
) -> None:
    from sidecar.cli import main

    path = write_node({"a": "redis://127.0.0.1:1"}, more=f"[controller]\n{key}\n")
    assert main(["check", str(path)]) == 2
    assert key.split()[0] in capsys.readouterr().err


def test_a_running_sidecar_keeps_as_many_as_its_file_says(
    write_node: WriteNode, start_server: StartServer
) -> None:
    more = (
        '[cycle]\nmaximum_age = "100ms"\n[controller]\nkind = "embedded"\nfolder = "documents"\n'
        "keep_documents_number = 2\n"
    )
    path = write_node({"a": start_server("8mb").url}, budget="24mb", more=more)
    assert load_config(path).controller.kept.number == 2
    plans = path.parent / "documents" / "plans" / "n1"

    def newest() -> int:
        return max((int(found.stem) for found in plans.glob("*.json")), default=0)

    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        first = newest()
        wait_until(lambda: newest() >= first + 4, lambda: process.lines)
        assert process.end() == 0
    # One more may have been written when it was told to stop.
    assert len(list(plans.glob("*.json"))) <= 3
