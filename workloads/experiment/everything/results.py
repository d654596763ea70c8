"""What was measured, as files: one a study, as ``experiment NAME --json`` writes it.

The experiments of the evaluation, in the order of its chapters.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads.experiment.study import Data, Study, StudyError

# Chapter, and the verb's name and module of each study in it.
CHAPTERS = {
    "The thesis' figures and tables": {
        "figure-8-3": "workloads.experiment.thesis.solver_times",
        "figure-8-4": "workloads.experiment.thesis.client_latency",
        "cycle": "workloads.experiment.thesis.cycle",
        "figure-8-5": "workloads.experiment.thesis.ten_hours",
        "figure-8-6": "workloads.experiment.thesis.costs",
    },
    "Real clients": {
        "ycsb": "workloads.experiment.clients.ycsb",
        "clients-overhead": "workloads.experiment.clients.overhead",
        "carlos": "workloads.experiment.clients.carlos",
    },
    "The other papers": {
        "imports": "workloads.experiment.papers.imports",
        "slow-backend": "workloads.experiment.papers.slow_backend",
        "phases": "workloads.experiment.papers.phases",
        "placement": "workloads.experiment.papers.placement",
        "memory": "workloads.experiment.papers.memory",
    },
    "What is said, and what comes": {
        "look-answers": "workloads.experiment.look_answers",
        "other-budgets": "workloads.experiment.real_gain.other_budgets",
    },
    "Growth": {
        "growth-servers": "workloads.experiment.growth.servers",
        "growth-keys": "workloads.experiment.growth.keys",
        "growth-samples": "workloads.experiment.growth.samples",
        "growth-plans": "workloads.experiment.growth.plans",
    },
}

STUDIES = {name: module for chapter in CHAPTERS.values() for name, module in chapter.items()}


@dataclass(frozen=True)
class Result:
    """A study and what it measured.

    Attributes:
        chapter: in which it stands.
        record: the file's contents; without ``data`` where it could not be measured.
    """

    chapter: str
    study: Study
    record: dict[str, Any]

    @property
    def error(self) -> str | None:
        """Why there are no figures."""
        return self.record.get("error")

    @property
    def data(self) -> Data:
        """Return the figures of the record."""
        data: Data = self.record["data"]
        return data


def file_of(folder: Path, name: str) -> Path:
    """Return the file in which a study's figures lie."""
    return folder / f"{name}.json"


def study_of(name: str) -> Study:
    """Import a study by its verb's name."""
    study: Study = importlib.import_module(STUDIES[name]).STUDY
    return study


def read_results(folder: Path) -> list[Result]:
    """Read the results of those studies that have a file, in the order of the chapters.

    Raises:
        StudyError: a file is not one of ours, or there is none.
    """
    results = [
        Result(chapter, study_of(name), _record(file_of(folder, name), name))
        for chapter, names in CHAPTERS.items()
        for name in names
        if file_of(folder, name).exists()
    ]
    if not results:
        raise StudyError(f"{folder} has no results: run without --report-only first")
    return results


def _record(path: Path, name: str) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise StudyError(f"{path} cannot be read: {error}") from error
    if not isinstance(record, dict) or record.get("study") != name:
        raise StudyError(f"{path} is not a result of 'experiment {name}'")
    if "error" not in record and not {"data", "seeds", "provenance"} <= set(record):
        raise StudyError(f"{path} has no key 'data', 'seeds' or 'provenance'")
    return record
