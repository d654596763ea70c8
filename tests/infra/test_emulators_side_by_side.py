"""Shows where our emulator and moto disagree, or both with AWS: docs/operate/emulators.md."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from infra.emulator.process import ACCOUNT, REGION, Emulator
from tests.infra.emulator_probes import PROBES, answer

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "emulators.md"
HEAD = "| asked | AWS | our emulator | moto | held here by |"

Client = Callable[..., Any]


def client_of(endpoint_url: str) -> Client:
    @functools.cache  # to make one takes longer than most answers
    def client(service: str, key: str = ACCOUNT, secret: str = "emulated") -> Any:
        return boto3.client(
            service,
            endpoint_url=endpoint_url,
            region_name=REGION,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
        )

    return client


@pytest.fixture(scope="module")
def rows() -> Iterator[list[str]]:
    """The table's, from what both answer now."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        with Emulator() as emulator:
            host, port = server.get_host_and_port()
            clients = client_of(emulator.endpoint_url), client_of(f"http://{host}:{port}")
            yield [
                f"| {probe.asked} | [{probe.expected}]({probe.source}) | "
                + " | ".join(_marked(answer(probe, one), probe.expected) for one in clients)
                + f" | {probe.held_by} |"
                for probe in PROBES
            ]
    finally:
        server.stop()


def _marked(given: str, expected: str) -> str:
    return "as AWS" if given == expected else f"**{given}**"


def test_the_page_says_what_both_answer(rows: list[str]) -> None:
    table = PAGE.read_text().partition(HEAD)[2].splitlines()
    found = [line for line in table if line.startswith("| ")]
    assert found == rows, "the page should have\n" + "\n".join(rows)


def test_the_page_names_what_holds_each_disagreement() -> None:
    """A file that is there, where neither emulator would notice."""
    for probe in PROBES:
        for name in re.findall(r"`((?:tests|infra)/[^`]+)`", probe.held_by):
            assert (PAGE.parents[2] / name).exists(), name
