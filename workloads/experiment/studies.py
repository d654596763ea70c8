"""The experiments of the evaluation, in the order of its chapters."""

from __future__ import annotations

# Chapter, and the verb's name and module of each study in it.
CHAPTERS = {
    "The thesis' figures and tables": {
        "figure-8-3": "workloads.experiment.thesis.solver_times",
        "figure-8-4": "workloads.experiment.thesis.client_latency",
        "cycle": "workloads.experiment.thesis.cycle",
        "figure-8-5": "workloads.experiment.thesis.ten_hours.study",
        "figure-8-6": "workloads.experiment.thesis.costs",
    },
    "Real clients": {
        "ycsb": "workloads.experiment.clients.ycsb",
        "clients-overhead": "workloads.experiment.clients.overhead",
        "carlos": "workloads.experiment.clients.carlos",
    },
    "The other papers": {
        "imports": "workloads.experiment.papers.imports",
        "slow-backend": "workloads.experiment.papers.slow_backend.study",
        "phases": "workloads.experiment.papers.phases.study",
        "placement": "workloads.experiment.papers.placement.study",
        "memory": "workloads.experiment.papers.memory.study",
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
