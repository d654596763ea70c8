"""Sizes from before SPREDS are given back, as far as those that refuse leave room."""

from __future__ import annotations

import threading

import pytest

from sidecar.servers.restoring import restore_sizes
from tests.sidecar.model_node import Node
from workloads.experiment.faults.model.model_server import MIB


@pytest.fixture(autouse=True)
def settled(node: Node) -> None:
    """Each of both has half of 48 MiB."""
    node.stage.wait(2)


def restore(node: Node, *sizes_mib: int) -> tuple[dict[str, str], list[float]]:
    sizes = {f"s{place}": size * MIB for place, size in enumerate(sizes_mib)}
    missing = restore_sizes(node.actuator._watches, sizes, node.metrics, threading.Event())
    return missing, [server.maxmemory_bytes / MIB for server in node.servers]


def test_who_shrinks_comes_first(node: Node) -> None:
    assert restore(node, 36, 12) == ({}, [36, 12])


def test_who_refuses_keeps_the_others_from_what_it_has_and_from_no_more(node: Node) -> None:
    node.servers[1].refuses = True
    missing, sizes = restore(node, 36, 20)
    # 56 MiB were there: beside its 24 there is room for 32.
    assert sizes == [32, 24]
    assert missing["s0"] == "it waits for s1"
    assert set(missing) == {"s0", "s1"}
    # Nor is it asked again for what it has.
    assert restore(node, 36, 20)[1] == [32, 24]
    node.servers[1].refuses = False
    assert restore(node, 36, 20) == ({}, [36, 20])


def test_beside_sizes_without_a_limit_all_wait(node: Node) -> None:
    node.servers[1].refuses = True
    missing, sizes = restore(node, 0, 20)
    assert sizes == [24, 24]
    assert missing["s0"] == "it waits for s1"
