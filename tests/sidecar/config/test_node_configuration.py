"""The node's TOML file: what it means, and the sentence for each mistake."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidecar
from sidecar.cli import main
from sidecar.config.addresses import shown_url
from sidecar.config.controller_config import ControllerConfig
from sidecar.config.fields import lasting_secret_path, secret_path
from sidecar.config.node import SidecarConfig, load_config, read_config
from sidecar.config.operators import OperatorsConfig
from solver_lambda.documents.planning_settings import PlanningSettings
from solver_lambda.documents.reader import MAX_SERVERS, DocumentError, Fields
from solver_lambda.documents.server_settings import BOUNDS
from solver_lambda.documents.units import format_duration, format_size, parse_duration, parse_size
from tests.secret_file import write_secret
from tests.sidecar.fixtures import WriteNode

GOOD = """
node = "cache-1"

[memory]
budget = "100mb"

[sampling]
endpoint = "ipc:///tmp/spreds.ipc"
rate = 0.01

[cycle]
samples = 1000
maximum_age = "90s"

[controller]
kind = "lambda"
observations_bucket = "observations"
plans_bucket = "plans"
region = "us-east-1"
topic_arn = "arn:aws:sns:us-east-1:123456789012:plans"
delivery = "sqs"
queue_url = "https://sqs.us-east-1.amazonaws.com/123456789012/cache-1"

[planning]
method = "dirichlet"

[[server]]
name = "sessions"
url = "redis://127.0.0.1:6379"
weight = 2
backend_latency = "80ms"
minimum = "8mb"

[[server]]
name = "pages"
url = "unix:///run/redis/pages.sock"
maximum = "64mb"
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_a_file_means_what_it_says(tmp_path: Path) -> None:
    config = load_config(_write(tmp_path, GOOD))
    assert config.memory.budget_bytes == 100 << 20
    assert config.cycle.maximum_age_seconds == 90
    assert config.sampling.threshold == 167772
    assert config.controller.cloud is not None
    assert config.controller.cloud.queue_url is not None
    assert config.planning.method == "dirichlet"
    sessions, pages = config.servers
    assert sessions.backend_latency_seconds == pytest.approx(0.08)
    assert sessions.minimum_bytes == 8 << 20
    assert pages.backend_latency_seconds is None
    assert pages.maximum_bytes == 64 << 20
    assert config.limits.maximum_minimum_bytes == 25 << 20


REFUSED = {
    "unknown key": (
        "samples = 1000",
        "sampels = 1000",
        ["cycle.sampels", "did you mean 'samples'"],
    ),
    "unknown table": ("[planning]", "[planing]", ["planing", "did you mean 'planning'"]),
    "unknown server key": ("weight = 2", "wieght = 2", ["server[sessions].wieght", "'weight'"]),
    "bad size": ('budget = "100mb"', 'budget = "100 megs"', ["memory.budget", "'100 megs'"]),
    "negative size": ('budget = "100mb"', "budget = -1", ["memory.budget", "-1"]),
    "no budget": ('budget = "100mb"', "", ["memory.budget", "is missing"]),
    "a slip in what is needed": (
        'budget = "100mb"',
        'budgett = "100mb"',
        ["memory.budget is missing", "is 'budgett' meant to be it?"],
    ),
    "a slip in a table that is needed": (
        "[memory]",
        "[memmory]",
        ["memory is missing", "is 'memmory' meant to be it?"],
    ),
    "bad duration": ('"80ms"', '"80"', ["server[sessions].backend_latency", "'80'"]),
    "bare duration": ('"80ms"', "80", ["server[sessions].backend_latency", "80"]),
    "two of one name": ('name = "pages"', 'name = "sessions"', ["server", "'sessions'"]),
    "minima above M": (
        'minimum = "8mb"',
        'minimum = "99mb"',
        ["minima", "memory.budget, 100 MiB"],
    ),
    "maximum below minimum": (
        'maximum = "64mb"',
        'maximum = "1mb"',
        ["server[pages].maximum", "1 MiB is below the minimum 2 MiB"],
    ),
    "bad rate": ("rate = 0.01", "rate = 0", ["sampling.rate", "0"]),
    "rate and threshold": ("rate = 0.01", "rate = 0.01\nthreshold = 5", ["rate", "threshold"]),
    "modulus": ("rate = 0.01", "modulus = 1000", ["sampling.modulus", "power of two", "1000"]),
    "endpoint": ("ipc:///tmp/spreds.ipc", "pgm://x", ["sampling.endpoint", "pgm://x"]),
    "relative endpoint": ("ipc:///tmp/spreds.ipc", "ipc://x", ["sampling.endpoint", "absolute"]),
    "long endpoint": (
        "/tmp/spreds.ipc",
        "/tmp/" + "x" * 103,
        ["sampling.endpoint", "108 bytes", "107"],
    ),
    "endpoint's port": (
        "ipc:///tmp/spreds.ipc",
        "tcp://127.0.0.1:99999",
        ["sampling.endpoint", "tcp://HOST:PORT", "99999"],
    ),
    "number without unit": (
        'budget = "100mb"',
        "budget = 160",
        ["memory.budget", "160 has no unit", "'160mb'"],
    ),
    "text without unit": (
        'budget = "100mb"',
        'budget = "160"',
        ["memory.budget", "'160' has no unit", "'160mb'"],
    ),
    "tiny budget": ('budget = "100mb"', 'budget = "160b"', ["memory.budget", "64 KiB", "160b"]),
    "port": (":6379", ":99999", ["server[sessions].url", ":99999", "out of range"]),
    "port of letters": (":6379", ":abc", ["server[sessions].url", ":abc"]),
    "zero byte in a path": (
        "unix:///run/redis/pages.sock",
        "unix:///run/redis/%00.sock",
        ["server[pages].url", "zero byte"],
    ),
    "one address twice": (
        "unix:///run/redis/pages.sock",
        "redis://localhost",
        ["server", "'sessions'", "'pages'", "one address"],
    ),
    "an address in the query": (
        ":6379",
        ":6379?port=6380",
        ["server[sessions].url", "before the ?"],
    ),
    "node": ('"cache-1"', '"Cache_1"', ["node", "'Cache_1'"]),
    "kind": ('kind = "lambda"', 'kind = "lamda"', ["controller.kind", "fargate", "'lamda'"]),
    "topic": ("arn:aws:sns", "arn:aws:sqs", ["controller.topic_arn", "arn:aws:sqs"]),
    "no bucket": ('plans_bucket = "plans"', "", ["controller.plans_bucket", "is missing"]),
    "delivery": ('delivery = "sqs"', 'delivery = "http"', ["controller.listen", "is missing"]),
    "secret in address": (
        "redis://127",
        "redis://:hunter2@127",
        ["server[sessions].url", "password_file"],
    ),
    "address": ("redis://127.0.0.1:6379", "127.0.0.1:6379", ["server[sessions].url", "redis://"]),
    "absent secret": (
        "weight = 2",
        'password_env = "SPREDS_NONE"',
        ["password_env", "SPREDS_NONE"],
    ),
    "method": ('"dirichlet"', '"magic"', ["planning.method", "'magic'"]),
    "bare seconds": (
        'method = "dirichlet"',
        "horizon = 600",
        ["planning.horizon", "must be a duration", "600"],
    ),
    "seconds by another name": (
        'method = "dirichlet"',
        "horizon_seconds = 600",
        ["planning.horizon_seconds", "did you mean 'horizon'"],
    ),
    "no time": ('method = "dirichlet"', 'time_limit = "0s"', ["planning.time_limit", "'0s'"]),
    "too much time": (
        'method = "dirichlet"',
        'time_limit = "46s"',
        ["planning.time_limit", "'46s'", "at most 45s"],
    ),
    "weight": ("weight = 2", "weight = nan", ["server[sessions].weight", "nan"]),
    "not TOML": ("[memory]", "[memory", ["not a TOML file"]),
    "a size without quotes": (
        'budget = "100mb"',
        "budget = 100mb",
        ["not a TOML file", "the value of budget must stand in quotes"],
    ),
    "a word without quotes": (
        'node = "cache-1"',
        "node = cache-1  # mine",
        ["not a TOML file", "the value of node must stand in quotes"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_with_one_sentence_that_names_it(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, words = REFUSED[case]
    assert good in GOOD
    path = _write(tmp_path, GOOD.replace(good, bad, 1))
    assert main(["check", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    for word in [str(path), *words]:
        assert word in printed.err
    assert "hunter2" not in printed.err


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"nowhere\.toml: cannot be read"):
        load_config(tmp_path / "nowhere.toml")


def test_check_prints_the_effective_configuration_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_secret(tmp_path / "secret", "hunter2\n")
    text = GOOD.replace("weight = 2", 'password_file = "secret"')
    path = _write(tmp_path, text)
    assert load_config(path).servers[0].password == "hunter2"
    assert "hunter2" not in repr(load_config(path))
    assert main(["check", "--verbose", str(path)]) == 0
    lines = capsys.readouterr().out
    # By the names that the file has.
    for line in (
        'budget = "100MiB"',
        'maximum_age = "1.5min"',
        'endpoint = "ipc:///tmp/spreds.ipc"',
        "rate = 0.01",
        'set_by_hand = "hold"',
        f'password_file = "{tmp_path}/secret"',
        "# password_file: none",
    ):
        assert line in lines.splitlines()
    assert main(["check", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "hunter2" not in lines + printed
    assert json.loads(printed)["server"][1]["name"] == "pages"


def test_who_only_speaks_to_the_sidecar_reads_no_secret(tmp_path: Path) -> None:
    """As a member of operators.group, who may give orders and not read passwords."""
    text = GOOD.replace("weight = 2", 'password_file = "not there"')
    text = f'state_file = "state.json"\n{text}[operators]\ntoken_file = "nor this"\n'
    path = _write(tmp_path, text)
    with pytest.raises(DocumentError, match="not there"):
        load_config(path)
    config = load_config(path, secrets=False)
    assert config.operators.socket == tmp_path / "state.json.sock"
    assert main(["history", str(path)]) == 0
    # And the next one reads them again.
    with pytest.raises(DocumentError, match="not there"):
        load_config(path)


@given(st.integers(0, 1 << 50))
def test_a_printed_size_is_read_back_within_its_digits(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == pytest.approx(size_bytes, rel=1e-3)
    assert parse_size(str(size_bytes)) == parse_size(size_bytes) == size_bytes


@given(st.floats(1e-6, 1e6))
def test_a_printed_duration_is_read_back_within_its_digits(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-3)


def test_units_are_those_of_redis() -> None:
    assert [parse_size(text) for text in ("1k", "1kb", "1M", "1mb", "1.5gb")] == [
        1000,
        1024,
        1_000_000,
        1 << 20,
        3 << 29,
    ]
    assert [parse_duration(text) for text in ("2us", "200ms", "1m", "2h", "1d")] == pytest.approx(
        [2e-6, 0.2, 60, 7200, 86400]
    )


def test_the_example_is_right_and_its_comments_are_the_defaults(tmp_path: Path) -> None:
    text = Path(sidecar.__file__).with_name("example.toml").read_text()
    config = load_config(_write(tmp_path, text))
    assert config.controller.kind == "auto"
    assert config.controller.cloud is None
    # Every default, written out, changes nothing; nor is any key there that does not exist.
    other = ("username", "password_file", "maximum", "maximum_step_ratio", "observations_bucket")
    other += ("group", "listen", "listen_anywhere", "token_file")
    other += ("cgroup", "rss_budget", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
    other += ("ssl_check_hostname", "url", "key_file", "allow_plain_http")
    other += tuple(bound.option for bound in BOUNDS.values())
    cloud = ("plans_bucket", "region", "topic_arn", "delivery", "queue_url", "endpoint_url")
    cloud += ("account_id",)
    lines = [
        line[2:]
        if line.startswith("# ") and " = " in line and line.split()[1] not in other + cloud
        else line
        for line in text.splitlines()
    ]
    assert lines != text.splitlines()
    assert load_config(_write(tmp_path, "\n".join(lines))) == config


def test_the_example_tells_of_each_key_of_planning() -> None:
    text = Path(sidecar.__file__).with_name("example.toml").read_text()
    table = text.partition("[planning]")[2].partition("[limits]")[0]
    for field in dataclasses.fields(PlanningSettings):
        assert f"# {field.name.removesuffix('_seconds')} = " in table


def test_the_times_of_planning_are_durations(tmp_path: Path) -> None:
    text = GOOD.replace('method = "dirichlet"', 'horizon = "10m"\ndwell = "90s"')
    planning = load_config(_write(tmp_path, text)).planning
    assert planning == PlanningSettings(horizon_seconds=600.0, dwell_seconds=90.0)


def test_what_a_reload_cannot_change_is_named(tmp_path: Path) -> None:
    old = load_config(_write(tmp_path, GOOD))
    for good, bad, named in (
        ('"100mb"', '"90mb"', ["[memory]"]),
        ("rate = 0.01", "rate = 0.02", ["[sampling]"]),
        ("127.0.0.1:6379", "127.0.0.1:6399", ["the servers or how to reach them"]),
        ("weight = 2", "weight = 3", []),
    ):
        new = load_config(_write(tmp_path, GOOD.replace(good, bad)))
        assert new.needs_restart_after(old) == named


def test_a_page_token_that_is_replaced_in_its_file_needs_no_restart(tmp_path: Path) -> None:
    path = _write(tmp_path, GOOD + '[operators]\ntoken_file = "token"\n')
    tokens = ("a-token-of-some-length", "another-token-of-length")
    old, new = (load_config(path) for token in tokens if write_secret(tmp_path / "token", token))
    assert (old.operators.token, new.operators.token) == tokens
    assert new.needs_restart_after(old) == []


def test_who_plans_by_default_is_said_once(tmp_path: Path) -> None:
    controller = GOOD.partition("[controller]")[2].partition("[planning]")[0]
    config = load_config(_write(tmp_path, GOOD.replace(controller, "\n")))
    assert config.controller == ControllerConfig()


# --- A node's file that no reader should choke on.


@pytest.mark.parametrize("value", ["9" * 4301, "[" * 9000 + "]" * 9000, "0x" + "f" * 9000])
def test_an_endless_value_is_refused_in_a_short_sentence(tmp_path: Path, value: str) -> None:
    path = tmp_path / "node.toml"
    path.write_text(f"node = {value}\n")
    with pytest.raises(DocumentError) as error:
        load_config(path)
    assert str(error.value).startswith(str(path))
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"minimum = {1 << 62}", "minimum must be at most 2305843009213693952 bytes"),
        (f'minimum = "{"9" * 400}"', "minimum must be at most 2305843009213693952 bytes"),
        (f'backend_latency = "{"9" * 400}ms"', "backend_latency must be at most 1e+19 s"),
        ("weight = 1e999", "weight must be a finite number"),
    ],
)
def test_what_a_document_may_not_have_is_refused(
    write_node: WriteNode, line: str, words: str
) -> None:
    with pytest.raises(DocumentError) as error:
        load_config(write_node({"a": "redis://127.0.0.1:1"}, server_keys=line))
    assert words in str(error.value)
    assert len(str(error.value)) < 1000


def test_a_minimum_of_0_is_one_byte(write_node: WriteNode) -> None:
    path = write_node({"a": "redis://127.0.0.1:1"}, server_keys="minimum = 0")
    assert load_config(path).servers[0].minimum_bytes == 1


def test_servers_are_counted_before_they_are_compared(write_node: WriteNode) -> None:
    urls = {f"s{number}": f"redis://127.0.0.1:{number}" for number in range(MAX_SERVERS + 1)}
    with pytest.raises(DocumentError, match="server must have 1024 tables at most, not 1025"):
        load_config(write_node(urls, budget="9gb"))


# --- ``[planning] forecast``, what follows from it, and the half-life that it takes the place of.


NODE = """
node = "n1"
[memory]
budget = "100mb"
[sampling]
endpoint = "ipc:///tmp/samples"
{sampling}
[cycle]
maximum_age = "30m"
[planning]
{planning}
[[server]]
name = "pages"
url = "redis://127.0.0.1:6379"
"""


def config_of(folder: Path, planning: str = "", sampling: str = "") -> SidecarConfig:
    path = folder / "node.toml"
    path.write_text(NODE.format(planning=planning, sampling=sampling))
    return load_config(path)


@pytest.mark.parametrize(
    ("planning", "forecasts", "horizon_seconds"),
    [
        ("", True, 10 * 1800),
        ('forecast = "competing"', True, 10 * 1800),
        ('forecast = "last"', False, 1800),
        ('horizon = "10m"', True, 600),
        ('forecast = "last"\nhorizon = "2d"', False, 2 * 86400),
    ],
)
def test_a_plan_is_expected_to_last_ten_cycles_or_one_of_the_last_window(
    tmp_path: Path, planning: str, forecasts: bool, horizon_seconds: float
) -> None:
    config = config_of(tmp_path, planning)
    assert config.forecasts is forecasts
    assert config.planning.horizon_seconds == horizon_seconds


def test_another_forecast_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"planning\.forecast.*'first'"):
        config_of(tmp_path, 'forecast = "first"')


def test_a_reload_cannot_change_the_forecast(tmp_path: Path) -> None:
    old, new = config_of(tmp_path), config_of(tmp_path, 'forecast = "last"')
    assert new.needs_restart_after(old) == ["planning.forecast"]


def test_a_half_life_is_accepted_and_the_operator_told_what_took_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        config = config_of(tmp_path, sampling='half_life = "2h"')
    assert config == config_of(tmp_path)
    (warning,) = caplog.messages
    assert "sampling.half_life" in warning
    assert "cycle.maximum_age" in warning
    assert str(tmp_path / "node.toml") in warning


@pytest.mark.parametrize("half_life", ["2", '"0s"', '"long"'])
def test_a_half_life_that_never_was_one_is_still_refused(tmp_path: Path, half_life: str) -> None:
    with pytest.raises(DocumentError, match=r"sampling\.half_life"):
        config_of(tmp_path, sampling=f"half_life = {half_life}")


# --- ``[operators]`` of a node's file.


TOKEN = "sixteen-letters!"
Load = Callable[[str], OperatorsConfig]


@pytest.fixture
def load(write_node: WriteNode, tmp_path: Path) -> Load:
    write_secret(tmp_path / "short", "short\n")
    write_secret(tmp_path / "same", 16 * "a")
    write_secret(tmp_path / "token", f"{TOKEN}\n")

    def read(text: str) -> OperatorsConfig:
        more = f'[controller]\nkind = "embedded"\n[operators]\n{text}\n'
        return load_config(write_node({"a": "redis://127.0.0.1:1"}, more=more)).operators

    return read


def test_by_default_there_is_a_socket_beside_the_state_file_and_no_port(
    load: Load, tmp_path: Path, write_node: WriteNode
) -> None:
    assert load("") == OperatorsConfig(socket=tmp_path / "state.json.sock")
    path = write_node({"a": "redis://127.0.0.1:1"})
    assert load_config(path).operators == load("")
    path.write_text(path.read_text().replace('state_file = "state.json"', ""))
    assert load_config(path).operators == OperatorsConfig()


def test_all_can_be_told(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'socket = "s"\ngroup = "root"\nlisten = "[::1]:9736"\ntoken_file = "token"'
    assert load(text) == OperatorsConfig(
        socket=tmp_path / "s",
        group="root",
        listen=("::1", 9736),
        token=TOKEN,
        token_path=tmp_path / "token",
    )
    assert TOKEN not in repr(load(text))
    monkeypatch.setenv("T", TOKEN)
    assert load('listen = "localhost:1"\ntoken_env = "T"') == OperatorsConfig(
        socket=tmp_path / "state.json.sock", listen=("localhost", 1), token=TOKEN
    )
    anywhere = load('listen = "0.0.0.0:9736"\nlisten_anywhere = true')
    assert (anywhere.listen, anywhere.anywhere) == (("0.0.0.0", 9736), True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('listen = "0.0.0.0:9736"', "operators.listen is '0.0.0.0:9736', which other machines can"),
        ('listen = "10.0.0.7:1"', "set operators.listen_anywhere = true"),
        ('listen = "9736"', "operators.listen must be HOST:PORT, not '9736'"),
        ('listen = "127.0.0.1:99999"', "operators.listen must be HOST:PORT"),
        ('listen = "somewhere:1"', "operators.listen must have 'localhost' or the number"),
        ('group = "no-such-group-here"', "operators.group is 'no-such-group-here', and this"),
        ('token_file = "nowhere"', "operators.token_file"),
        ('token_file = "short"', "operators.token_file must hold one word of at least 16"),
        ('token_file = "same"', "operators.token_file must hold at least 8 different"),
        ("listen_anywhere = 1", "operators.listen_anywhere must be true or false"),
        ('lisen = "127.0.0.1:1"', "did you mean 'listen'"),
    ],
)
def test_what_is_wrong_is_named(load: Load, text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        load(text)
    assert words in str(caught.value)
    assert "node.toml" in str(caught.value)


def test_another_door_needs_a_restart(write_node: WriteNode) -> None:
    old = load_config(write_node({"a": "redis://127.0.0.1:1"}))
    new = dataclasses.replace(old, operators=OperatorsConfig(listen=("127.0.0.1", 1)))
    assert new.needs_restart_after(old) == ["[operators]"]


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("redis://localhost:6390/0?db=1", "redis://127.0.0.1:6390/0?db=1"),
        ("redis://LOCALHOST", "redis://127.0.0.1"),
        ("redis://", "redis://127.0.0.1"),
        ("redis://:6390", "redis://127.0.0.1:6390"),
        ("redis://%6cocalhost:6390", "redis://127.0.0.1:6390"),
        ("redis://[::1]:6390", "redis://[::1]:6390"),
        ("redis://localhost.example:6390", "redis://localhost.example:6390"),
        ("rediss://localhost:6390", "rediss://localhost:6390"),
        ("http://localhost:8080/x?y", "http://127.0.0.1:8080/x?y"),
        ("https://localhost:8080/", "https://localhost:8080/"),
    ],
)
def test_localhost_is_the_number_that_is_looked_at(
    write_node: WriteNode, written: str, asked: str
) -> None:
    """The name may be [::1] first, where another user may listen; TLS proves the name."""
    is_service = written.startswith("http")
    more = f'kind = "http"\nurl = "{written}"' if is_service else 'kind = "embedded"'
    url = "redis://127.0.0.1:1" if is_service else written
    config = load_config(write_node({"a": url}, more=f"[controller]\n{more}\n"))
    found = config.controller.service.url if config.controller.service else config.servers[0].url
    assert found == asked


def test_a_pipe_is_no_file_to_read_a_secret_from_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    fields = Fields({"token_file": "pipe"}, "node.toml")
    assert lasting_secret_path(fields, "token", tmp_path) is None
    assert secret_path(fields, "token", tmp_path) == tmp_path / "pipe"


def test_an_emulator_by_name_is_one_address() -> None:
    """Somebody else may listen at the other one of ``localhost``."""
    table = {
        "node": "n1",
        "memory": {"budget": "64mb"},
        "sampling": {"endpoint": "ipc:///run/samples"},
        "controller": {
            "observations_bucket": "o",
            "plans_bucket": "p",
            "topic_arn": "arn:aws:sns:us-east-1:123456789012:t",
            "queue_url": "http://localhost:4566/q",
            "endpoint_url": "http://localhost:4566",
        },
        "server": [{"name": "a", "url": "redis://127.0.0.1:1"}],
    }
    cloud = read_config(Fields(table, "test"), Path()).controller.cloud
    assert cloud is not None
    assert cloud.endpoint_url == "http://127.0.0.1:4566"
    assert cloud.queue_url == "http://127.0.0.1:4566/q"


@pytest.mark.parametrize(
    "address", [":SECRETpw%40127.0.0.1:6379", ":SECRETpw:127.0.0.1:6379", "h:SECRETpw:6379"]
)
def test_a_password_in_a_wrong_address_is_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    good = re.search(r"redis://[^\"]*:6379", GOOD)
    assert good
    path = _write(tmp_path, GOOD.replace(good[0], f"redis://{address}", 1))
    assert main(["check", str(path)]) == 2
    captured = capsys.readouterr()
    assert "server[sessions].url" in captured.err
    assert "SECRETpw" not in captured.out + captured.err


@pytest.mark.parametrize(
    "address",
    [
        "//u:SECRETpw@s/",
        "https://u:SECRETpw%40s/",
        "u:SECRETpw@s",
        "https:///SECRETpw@s?x=SECRETpw",
    ],
)
def test_what_may_be_a_secret_of_an_address_is_not_shown(address: str) -> None:
    assert "SECRETpw" not in shown_url(address)
    assert shown_url(address).rstrip("?.").endswith(("s/", "s"))
