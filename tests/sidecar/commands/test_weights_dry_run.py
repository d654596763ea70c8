"""``spreds weights set --dry-run`` says what a wish would change, and sets nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from sidecar.cli import main
from sidecar.config.settings_limits import SettingsLimits
from sidecar.settings.team_report import report_document
from sidecar.state.state_store import StateStore
from sidecar.storage.store import FolderStore
from solver_lambda.documents.curve import MissRatioCurve
from solver_lambda.documents.keys import observation_key, report_key, settings_key
from solver_lambda.documents.observation import Observation, ServerObservation
from tests.sidecar.fixtures import WriteNode

MB = 1 << 20
CYCLE = 1795000000
FOLDER = '[controller]\nkind = "embedded"\nfolder = "documents"\n'


@pytest.fixture
def path(write_node: WriteNode) -> Path:
    urls = {"pages": "redis://127.0.0.1:1", "search": "redis://127.0.0.1:2"}
    return write_node(urls, budget="32mb", more=FOLDER)


@pytest.fixture
def documents(tmp_path: Path) -> FolderStore:
    """Store an observation in which both servers would gain as much by more memory."""
    sizes = np.arange(1, 33) * float(MB)
    curve = MissRatioCurve(sizes, 0.9 * np.exp(-sizes / (16 * MB)))
    servers = tuple(
        ServerObservation(name, 16 * MB, MB, 1.0, 1000.0, 1e-4, 0.05, curve)
        for name in ("pages", "search")
    )
    observation = Observation("n1", CYCLE, 1.7e9, 3600.0, 32 * MB, servers)
    store = FolderStore(tmp_path / "documents")
    store.put(observation_key("n1", CYCLE), observation.dumps())
    return store


def _wish(place: list[str], *more: str) -> int:
    return main(["weights", "set", "pages", *place, "--weight", "9", "--dry-run", *more])


@pytest.mark.parametrize("by", ["state", "report"])
def test_a_wish_is_planned_and_not_stored(
    path: Path, documents: FolderStore, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if by == "state":
        with StateStore(path.with_name("state.json")).update() as state:
            state.last_cycle = CYCLE
        place = ["--config", str(path)]
    else:
        documents.put(
            report_key("n1", "pages"),
            report_document(1.7e9, CYCLE, ["It is so."], SettingsLimits(16 << 20)),
        )
        documents.put(settings_key("n1", "search"), b"{}")  # a sidecar reads settings here
        place = ["--node", "n1", "--folder", str(path.parent / "documents")]
    assert _wish(place, "--json") == 0
    plans = json.loads(capsys.readouterr().out)
    without, wanted = (
        {one["name"]: one["maxmemory_bytes"] for one in plans[which]["servers"]}
        for which in ("without", "with")
    )
    assert without == {"pages": 16 * MB, "search": 16 * MB}
    assert wanted["pages"] > 18 * MB
    assert sum(wanted.values()) <= 32 * MB
    assert _wish(place) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith("Nothing is set. By what was observed at 2023-11-14")
    assert "pages 16 MiB 16 MiB" in said
    assert "The plan with it: mean access time from " in said
    assert documents.get(settings_key("n1", "pages"), 1000) is None


def test_a_wish_that_changes_nothing_says_so(
    path: Path, documents: FolderStore, capsys: pytest.CaptureFixture[str]
) -> None:
    with StateStore(path.with_name("state.json")).update() as state:
        state.last_cycle = CYCLE
    words = ["weights", "set", "pages", "--config", str(path), "--dry-run", "--weight", "1"]
    assert main(words) == 0
    assert "It would change no size." in capsys.readouterr().out


def test_a_latency_counts_as_far_as_it_would(
    path: Path, documents: FolderStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file says 50 ms, of which ten times count."""
    with StateStore(path.with_name("state.json")).update() as state:
        state.last_cycle = CYCLE
    told = []
    for latency in ("500ms", "5s"):
        words = ["weights", "set", "pages", "--config", str(path), "--dry-run", "--json"]
        assert main([*words, "--backend-latency", latency]) == 0
        told.append(json.loads(capsys.readouterr().out)["with"]["servers"])
    assert told[0] == told[1]
    assert told[0][0]["eat_before_seconds"] > 0.1
    words = ["weights", "set", "pages", "--config", str(path), "--dry-run"]
    assert main([*words, "--backend-latency", "5s"]) == 0
    said = capsys.readouterr().out
    assert "For pages a backend latency of 500 ms counts then." in said
    # With the same price for both, more memory is no slower.
    (row,) = (line for line in said.splitlines() if line.startswith("pages "))
    before, then = map(float, re.findall(r"([\d.]+)(?: ms)?", row.split("%")[-1])[:2])
    assert before >= then > 0


@pytest.mark.parametrize("source", ["configured", "team"])
def test_who_may_not_read_the_file_is_told_the_same_or_that_it_is_a_guess(
    path: Path, documents: FolderStore, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A team was told that ten times more would count than did."""
    text = documents.get(observation_key("n1", CYCLE), 1 << 20)
    assert text is not None
    told = text.replace(b'"configured"', f'"{source}"'.encode())
    documents.put(observation_key("n1", CYCLE), told)
    documents.put(
        report_key("n1", "pages"),
        report_document(1.7e9, CYCLE, ["It is so."], SettingsLimits(16 << 20)),
    )
    documents.put(settings_key("n1", "search"), b"{}")
    place = ["--node", "n1", "--folder", str(path.parent / "documents")]
    words = ["weights", "set", "pages", *place, "--dry-run", "--backend-latency", "5s"]
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    counts = "500 ms" if source == "configured" else "5000 ms"
    assert f"For pages a backend latency of {counts} counts then." in said
    assert ("That is a guess: " in said) == (source == "team")


def test_without_an_observation_it_says_what_is_missing(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.with_name("documents").mkdir()
    assert _wish(["--config", str(path)]) == 2
    assert "--dry-run: no observation of node n1 is at hand" in capsys.readouterr().err
