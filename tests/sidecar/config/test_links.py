"""``spreds check`` says of each link what protects it, and which ones are open."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config.links import Link, links
from sidecar.config.node import load_config
from tests.sidecar.fixtures import WriteNode

TOPIC = "arn:aws:sns:us-east-1:123456789012:t"
CLOUD = (
    'observations_bucket = "o"\nplans_bucket = "p"\n'
    f'topic_arn = "{TOPIC}"\nqueue_url = "https://x/q"\n'
)

# Name: (what the file has, the name of the link, whether it is open, what is said).
LINKS = {
    "Unix socket": ("", "server unix", False, "this machine only, by a Unix socket"),
    "shared folder": (
        "",
        "server shared",
        True,
        "a Unix socket, whose place in /tmp another local user may take",
    ),
    "loopback": ("", "server near", False, "this machine only, by its loopback address"),
    "far": ("", "server far", True, "plain text to another machine: take rediss://"),
    "TLS": ("", "server tls", False, "TLS"),
    "samples": ("", "samples", False, "this machine only, by a Unix socket"),
    "embedded": ("", "solver", False, "none: the sidecar plans itself"),
    "service": (
        '[controller]\nurl = "http://127.0.0.1/"\n',
        "solver",
        False,
        "this machine only, by its loopback address",
    ),
    "far service": (
        '[controller]\nurl = "http://10.0.0.5/"\nallow_plain_http = true\n',
        "solver",
        True,
        "plain text to another machine, and whoever is on the way can make plans",
    ),
    "TLS service": ('[controller]\nurl = "https://x/"\n', "solver", False, "TLS"),
    "cloud": (
        f"[controller]\n{CLOUD}",
        "solver",
        False,
        "TLS to AWS, whose roles say who may write plans",
    ),
    "emulator": (
        f'[controller]\n{CLOUD}endpoint_url = "http://localhost:4566"\n',
        "solver",
        True,
        "an emulator, whose signatures nobody vouches for",
    ),
    "no TLS to AWS": (
        f'[controller]\n{CLOUD}endpoint_url = "http://vpce.amazonaws.com"\n',
        "solver",
        True,
        "plain text to AWS",
    ),
    "notifications": (
        "[controller]\n"
        + CLOUD.replace('queue_url = "https://x/q"', 'delivery = "http"\nlisten = "0.0.0.0:80"'),
        "notifications",
        False,
        "plain text, but SNS signs each of them",
    ),
    "no page": ("", "page", False, "none"),
    "page": (
        '[operators]\nlisten = "127.0.0.1:9736"\n',
        "page",
        False,
        "this machine only, by its loopback address",
    ),
    "page at a name": (
        '[operators]\nlisten = "localhost:9736"\n',
        "page",
        False,
        "this machine only, by its loopback address",
    ),
    "open page": (
        '[operators]\nlisten = "0.0.0.0:9736"\nlisten_anywhere = true\n',
        "page",
        True,
        "plain text to other machines",
    ),
}


@pytest.fixture
def write(write_node: WriteNode) -> Callable[[str], Path]:
    urls = {
        "unix": "unix:///run/redis.sock",
        "shared": "unix:///tmp/redis.sock",
        "near": "redis://127.0.0.1:1",
        "far": "redis://10.0.0.5",
        "tls": "rediss://10.0.0.6",
    }
    return lambda more: write_node(urls, budget="512mb", more=more)


@pytest.mark.parametrize("name", LINKS)
def test_each_link_is_told(write: Callable[[str], Path], name: str) -> None:
    more, link_name, is_open, how = LINKS[name]
    found = {link.name: link for link in links(load_config(write(more)))}
    assert found[link_name].is_open == is_open
    assert found[link_name].how.startswith(how)


@pytest.mark.parametrize("endpoint", ["ipc://@name", "tcp://127.0.0.1:7", "tcp://10.0.0.5:7"])
def test_samples_that_others_may_send(write: Callable[[str], Path], endpoint: str) -> None:
    path = write("")
    text = path.read_text()
    old = text.split('endpoint = "')[1].split('"')[0]
    path.write_text(text.replace(f'"{old}"', f'"{endpoint}"\nopen_endpoint = true'))
    (found,) = (link for link in links(load_config(path)) if link.name == "samples")
    assert found.is_open
    assert "may send samples" in found.how


def test_check_prints_them(
    write: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("")
    assert main(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert "# link server tls: TLS" in said
    assert "# link server far: OPEN: plain text to another machine: take rediss://" in said
    assert main(["check", str(path), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert Link(**table["links"][0]) == Link("server unix", "this machine only, by a Unix socket")
