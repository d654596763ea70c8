"""What ``spreds check`` prints says the same when it is read as a file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.cli import main
from sidecar.config.effective_file import (
    _tables,
    duration_text,
    effective_lines,
    size_text,
    toml_string,
)
from sidecar.config.node import SidecarConfig, load_config
from solver_lambda.documents.units import parse_duration, parse_size
from tests.secret_file import write_secret

EXAMPLE = Path(__file__).parents[3] / "sidecar" / "example.toml"
CLOUD = """
observations_bucket = "o"
plans_bucket = "p"
account_id = "123456789012"
topic_arn = "arn:aws:sns:us-east-1:123456789012:plans"
queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/q"
"""
SERVICE = """
url = "http://127.0.0.1:8080/"
token_file = "secret"
key_env = "SOME_KEY"
"""
NODE = """
node = "n1"
mode = "apply"
state_file = "state.json"
[memory]
budget = "{budget}"
rss_budget = "100000001b"
unit = "100000b"
set_by_hand = "put_back"
[sampling]
endpoint = "tcp://127.0.0.1:7000"
open_endpoint = true
{how_many}
[controller]
folder = "documents"
keep_documents = "1.23456789s"
{controller}
[planning]
horizon = "3h"
forecast = "last"
maximum_step_ratio = 0.25
[operators]
listen = "[::1]:9000"
token_file = "secret"
[[server]]
name = "a"
url = "redis://127.0.0.1:7001"
backend_latency = "12.3456ms"
latency_bound = "20ms"
miss_bound = 50
minimum = "2097153b"
maximum = "1gb"
username = "spreds"
password_file = "secret"
cache = true
[[server]]
name = "b"
url = "rediss://cache:7002/3"
ssl_check_hostname = false
password_env = "SOME_PASSWORD"
"""


def _as_it_is(config: SidecarConfig) -> SidecarConfig:
    """Return the configuration without what says where it was read from."""
    servers = (
        replace(one, source="", password_from=None if one.password_path else one.password_from)
        for one in config.servers
    )
    return replace(config, servers=tuple(servers))


def _read_again(config: SidecarConfig, folder: Path) -> SidecarConfig:
    path = folder / "again.toml"
    path.write_text("\n".join(effective_lines(config)))
    return load_config(path, secrets=False)


@pytest.mark.parametrize("controller", ["", CLOUD, SERVICE], ids=["embedded", "cloud", "service"])
@pytest.mark.parametrize("how_many", ["rate = 0.037", "threshold = 77\nmodulus = 4096"])
@pytest.mark.parametrize("budget", ["96MiB", "100000003b", "75%"])
def test_it_is_the_same_configuration(
    tmp_path: Path, controller: str, how_many: str, budget: str
) -> None:
    write_secret(tmp_path / "secret", "not-one-that-is-printed")
    path = tmp_path / "node.toml"
    path.write_text(NODE.format(budget=budget, how_many=how_many, controller=controller))
    config = load_config(path, secrets=False)
    text = "\n".join(effective_lines(config))
    # Where a secret comes from an environment variable nobody but the server's tells its name.
    assert ("# key_env: set" in text) == (controller == SERVICE)
    kept = replace(config, controller=replace(config.controller, service=None))
    again = _read_again(config, tmp_path)
    assert "not-one-that-is-printed" not in text
    assert _as_it_is(replace(again, controller=replace(again.controller, service=None))) == (
        _as_it_is(kept)
    )
    if (service := config.controller.service) is not None:
        assert again.controller.service == replace(service, key=None)


def test_every_option_of_the_example_is_there() -> None:
    """Those of a kind that the node does not have are comments there, too."""
    config = load_config(EXAMPLE, secrets=False)
    table = tomllib.loads("\n".join(effective_lines(config)))
    given = tomllib.loads(EXAMPLE.read_text())
    for name, options in given.items():
        if isinstance(options, dict):
            assert options.keys() <= table[name].keys(), name
    for one, other in zip(given["server"], table["server"], strict=True):
        assert one.keys() <= other.keys()


@pytest.mark.parametrize("verbose", [(), ("--verbose",)])
def test_what_check_prints_can_be_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verbose: tuple[str, ...]
) -> None:
    assert main(["check", str(EXAMPLE), *verbose]) == 0
    path = tmp_path / "printed.toml"
    path.write_text(capsys.readouterr().out)
    assert _as_it_is(load_config(path)) == _as_it_is(load_config(EXAMPLE))


def test_check_prints_what_the_file_has_and_counts_the_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node.toml"
    path.write_text(
        'node = "n"\nstate_file = "state.json"\n[memory]\nbudget = "1024mb"\n'
        '[sampling]\nendpoint = "ipc:///run/spreds/samples"\nthreshold = 167772\n'
        '[[server]]\nname = "a"\nurl = "redis://127.0.0.1"\nbackend_latency = "0.08s"\n'
    )
    assert main(["check", str(path)]) == 0
    printed = capsys.readouterr().out
    *parts, rest = printed.split("\n\n")[:5]
    assert parts == [
        f'node = "n"\n# mode: recommend, until an order says otherwise\n'
        f'state_file = "{tmp_path}/state.json"',
        '[memory]\nbudget = "1GiB"',
        '[sampling]\nendpoint = "ipc:///run/spreds/samples"\nrate = 0.01',
        '[[server]]\nname = "a"\nurl = "redis://127.0.0.1"\nbackend_latency = "80ms"',
    ]
    everything = sum(len(options) for _, options in _tables(load_config(path)))
    assert rest == f"# {everything - 9} more options have their defaults: --verbose lists them"
    assert "link" not in printed


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example('docs-\U0001f600 "\\ \x00\x7f\xe9')
def test_a_text_is_one_of_toml(text: str) -> None:
    assert tomllib.loads(f"key = {toml_string(text)}") == {"key": text}


@given(st.integers(0, 1 << 50))
def test_sizes_are_exact(size_bytes: int) -> None:
    assert parse_size(size_text(size_bytes)) == size_bytes


@given(st.floats(1e-9, 1e9))
def test_durations_are_exact(seconds: float) -> None:
    assert parse_duration(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    "change",
    [
        ("/123456789012/q", "/123456789012/q?sig=SEKRIT"),
        ("observations_bucket =", 'endpoint_url = "http://127.0.0.1:7/?sig=SEKRIT"\n\\g<0>'),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/?code=SEKRIT"),
        ("http://127.0.0.1:8080/", "http://10.1.2.3/?code=SEKRIT"),
        ('7001"', '7001?x=SEKRIT"\nssl_ca_certs = "a"'),
    ],
    ids=["queue", "emulator", "service", "refused", "server"],
)
def test_what_stands_after_the_question_mark_of_an_address_is_not_shown(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, str],
) -> None:
    for name in ("SOME_KEY", "SOME_PASSWORD"):
        monkeypatch.setenv(name, "0123456789abcdef" * 3)
    write_secret(tmp_path / "secret", "not-one-that-is-printed")
    path = tmp_path / "node.toml"
    how = {"budget": "96MiB", "how_many": "rate = 0.037"}
    controller = CLOUD if "123" in change[0] or "bucket" in change[0] else SERVICE
    if "10.1.2.3" in change[1]:  # without a key it is refused
        controller = SERVICE.replace('key_env = "SOME_KEY"', "")
    text = re.sub(*change, NODE.format(**how, controller=controller), count=1)
    assert "SEKRIT" in text
    path.write_text(text)
    main(["check", str(path)])
    captured = capsys.readouterr()
    assert "SEKRIT" not in captured.out + captured.err
    assert "?..." in captured.err or "after the ?" in captured.out
