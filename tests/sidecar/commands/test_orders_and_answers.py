"""The commands and a sidecar that answers over its socket, or does not."""

from __future__ import annotations

import grp
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sidecar.cli import main
from sidecar.commands.change_words import _what_counted_anew, in_the_last_day
from sidecar.commands.curve_words import apart_words
from sidecar.commands.explain import explain
from sidecar.commands.explain.explain import last_plan_sentences
from sidecar.commands.explain.explain_words import server_sentences
from sidecar.commands.plan.plan_words import guessed
from sidecar.commands.status.status import print_short
from sidecar.commands.status.status_verbose import _expected, print_status
from sidecar.config.node import ServerConfig
from sidecar.config.operators import OperatorsConfig
from sidecar.control.client import (
    SidecarClient,
    SidecarForbiddenError,
    SidecarNotRunningError,
    SidecarSilentError,
)
from sidecar.control.history import History
from sidecar.control.order import Order
from sidecar.control.size_reason import reason_with_planned_change
from sidecar.curves.decaying_counts import HALF_LIVES_CYCLES
from sidecar.web.operators_server import OperatorsServer
from solver_lambda.documents.units import format_size
from tests.sidecar.example_sidecar import (
    CYCLE,
    MIB,
    ExampleSidecar,
    example_status,
)
from tests.sidecar.fixtures import StartServer, WriteNode

NAMES = [server["name"] for server in example_status()["servers"]]
Printed = Callable[..., str]


@pytest.fixture
def path(write_node: WriteNode) -> Path:
    # Nobody is there: these commands ask the sidecar, not the servers.
    urls = {name: f"redis://127.0.0.1:{place + 1}" for place, name in enumerate(NAMES)}
    path = write_node(urls, budget="8GiB", server_keys="")
    path.write_text(path.read_text().replace('node = "n1"', 'node = "cache-1"'))
    return path


@pytest.fixture
def socket_path(path: Path) -> Path:
    return path.with_name("state.json.sock")


@pytest.fixture
def sidecar(socket_path: Path) -> Iterator[ExampleSidecar]:
    watched = ExampleSidecar()
    with OperatorsServer(OperatorsConfig(socket=socket_path), watched):
        yield watched


@pytest.fixture
def printed(path: Path, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Return what a command prints, its lines unwrapped."""

    def run(command: str, *words: str, code: int = 0) -> str:
        assert main([command, str(path), *words]) == code
        return " ".join(capsys.readouterr().out.split())

    return run


@pytest.mark.parametrize("command", ["status", "plan", "explain"])
def test_another_nodes_sidecar_is_not_told(
    sidecar: ExampleSidecar, path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sidecar.document["node"] = "cache-2"
    assert main([command, str(path)]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert (
        "this file is of node cache-1, and the sidecar that answers is of node cache-2" in said.err
    )


def test_status_tells_mode_plan_lag_and_memory(sidecar: ExampleSidecar, printed: Printed) -> None:
    text = printed("status", "--verbose")
    for words in (
        "node cache-1: mode recommend: no plans are carried out; nothing is set (as configured)",
        "process 4711, up for 3d; main loop turned 100ms ago, actuator turned 600ms ago",
        "301,442 of 500,000 for the next observation, which comes by 2026-",
        "in any case; 17 batches lost",
        "last plan: 30min ago, plan 1795361400, not carried out (the mode is recommend: plans "
        "are shown and not carried out): mean access time from 9.12 ms",
        "mean access time: by the curves 9.12 ms -> 6.42 ms; measured now 9.34 ms; before SPREDS "
        "set sizes it was 11.8 ms, with the load at that time",
        "last outcome: better: since plan 1795354200 the mean access time is 9.34 ms",
        "had the sizes of each plan since its time been in force for the last 24h, the mean access "
        "time would have been 27.4 % shorter",
        "the mean access time is 11.2 % shorter than with the sizes that SPREDS found, for",
        "total 8 GiB of 8 GiB (memory.bud",
        "of 9 GiB; of resident memory are set aside for forks 96 MiB, "
        "programs and fragmentation 410 MiB, clients 3 MiB",
    ):
        assert words in text
    sidecar.document["unmeasured"] = ["feed", "jobs"]
    assert (
        "9.34 ms, without feed, jobs (not read in it, or the latency is not known); before SPREDS"
        in printed("status", "--verbose")
    )
    plan = sidecar.document["last_plan"]
    sidecar.document["last_observation"] |= {"was_early": True, "cycle": plan["cycle"]}
    early = "plan 1795361400, before the cycle's end, as much more could be gained, not carried out"
    assert early in printed("status", "--verbose")
    sidecar.document["mode"] = "apply"
    sidecar.document["mode_by"] = {"by": "ana", "at_seconds": 1.7e9, "why": "it looks right"}
    sidecar.document["pause"] = {"by": "bob", "at_seconds": 1.7e9, "why": "", "until_seconds": None}
    wait = {"until_seconds": 1.7e9, "why": "the last plan did harm", "failures": 1}
    sidecar.document["wait"] = wait
    sidecar.document["problems"] = ["two sidecars speak at once"]
    text = printed("status", "--verbose")
    for words in (
        "node cache-1: paused until `spreds resume`: nothing is set (by bob at",
        "mode apply: plans are carried out (by ana at",
        ": it looks right)",
        ": the last plan did harm",
        "problem: two sidecars speak at once",
    ):
        assert words in text


def test_no_line_of_status_is_wider_than_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    told = example_status()
    servers = [
        {
            "name": server["name"],
            "error": None,
            "maxmemory_bytes": server["maxmemory_bytes"],
            "planned_bytes": 57 * MIB + 1,
            "used_memory_bytes": server["used_bytes"],
            "rss_bytes": server["rss_bytes"],
            "sampler": "module",
            "maxmemory_policy": "allkeys-random",
            "keep_reason": None,
            "backend_latency": None,
            "configured_latency_seconds": None,
        }
        for server in told["servers"]
    ]
    for server in told["servers"]:
        server["target_bytes"] = 57 * MIB + 12345
    status = {
        "node": told["node"],
        "sidecar": told,
        "servers": servers,
        "total_maxmemory_bytes": told["budget"]["maxmemory_bytes"],
        "budget_bytes": told["budget"]["bytes"],
    }
    print_status(status)
    print_short(status)
    told["sets_sizes"] = True
    assert "87.0 % at 57.012 MiB" in _expected(told["servers"][0], told)
    told["pause"] = {"by": "bob", "at_seconds": 1.7e9, "why": "", "until_seconds": None}
    assert _expected(told["servers"][0], told) == "87.0 %"
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    for of_reads in (line for line in lines if "hits, last window" in line):
        assert of_reads.split("  ")[0] == "server"


def test_status_for_programs_has_the_whole_document(
    sidecar: ExampleSidecar, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--json", str(path)]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["sidecar"] == sidecar.document
    assert (status["running"], status["silent"]) == (True, None)
    assert [server["error_kind"] for server in status["servers"]] == ["down"] * len(NAMES)


@pytest.mark.parametrize("command", ["plan", "apply", "recommend", "pause", "resume", "rollback"])
def test_a_sidecar_that_does_not_run_is_told_from_one_that_left_its_socket(
    command: str, path: Path, socket_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(path)]) == 1
    assert "spreds: the sidecar is not running: nobody listens at" in capsys.readouterr().err
    with closing(socket.socket(socket.AF_UNIX)) as left:
        left.bind(str(socket_path))
    assert main([command, str(path)]) == 1
    assert "the sidecar is not running" in capsys.readouterr().err


def test_status_says_that_it_is_not_running(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(path)]) == 1
    assert "the sidecar is not running" in capsys.readouterr().out
    assert main(["status", "--json", str(path)]) == 1
    assert json.loads(capsys.readouterr().out)["running"] is False


def test_who_may_not_speak_to_it_is_told_whose_socket_it_is(folder_of_all: Path) -> None:
    """In a process of another user, for root may speak to everybody."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    folder = folder_of_all / "run"
    folder.mkdir(mode=0o700)
    socket_path = folder / "socket"
    with OperatorsServer(OperatorsConfig(socket=socket_path), ExampleSidecar()):
        group = grp.getgrgid(socket_path.stat().st_gid).gr_name
        with pytest.raises(SidecarForbiddenError, match="you may not look into the folder of"):
            _as_nobody(socket_path)
        folder.chmod(0o755)
        sentence = (
            f"you may not speak to the sidecar: its socket {socket_path} belongs to group {group}"
        )
        with pytest.raises(SidecarForbiddenError) as refused:
            _as_nobody(socket_path)
        assert str(refused.value) == sentence


def _as_nobody(path: Path) -> None:
    os.seteuid(65534)
    try:
        SidecarClient(path).status()
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.getuid() != 0, reason="to be another user takes root")
def test_another_user_at_the_socket_is_told_and_believed_nothing(
    path: Path, socket_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where the socket's folder lies below /tmp, and he made it first."""
    with closing(socket.socket(socket.AF_UNIX)) as stranger:
        stranger.bind(os.fspath(socket_path))
        os.seteuid(65534)
        try:
            stranger.listen()  # from then on the peer is who listens
        finally:
            os.seteuid(0)
        assert main(["pause", os.fspath(path)]) == 1
        assert "nobody (uid 65534) listens there, and was told nothing" in capsys.readouterr().err
        with stranger.accept()[0] as connected:
            assert connected.recv(1) == b""


def test_a_path_longer_than_a_sockets_address_works(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    with pytest.raises(SidecarNotRunningError):
        SidecarClient(folder / "sock").status()
    watched = ExampleSidecar()
    with OperatorsServer(OperatorsConfig(socket=folder / "sock"), watched):
        assert SidecarClient(folder / "sock").status() == watched.document
        assert SidecarClient(folder / "sock").history(2) == watched.entries[-2:]


def test_one_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as deaf:
        deaf.bind(str(tmp_path / "sock"))
        deaf.listen()
        with pytest.raises(SidecarSilentError, match="does not answer within"):
            SidecarClient(tmp_path / "sock", limit_seconds=0.01).status()


def test_a_node_without_a_state_file_has_no_socket(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_text(path.read_text().replace('state_file = "state.json"', ""))
    assert main(["plan", str(path)]) == 1
    assert "without state_file cannot be asked" in capsys.readouterr().err
    assert main(["history", str(path)]) == 2
    assert "has no state_file" in capsys.readouterr().err


ORDERS = {
    ("apply",): Order("apply", ""),
    ("apply", "--from-now-on", "--why", "it looks right"): Order(
        "apply_from_now_on", "", "it looks right"
    ),
    ("apply", "1795361400"): Order("apply", "", plan=1795361400),
    ("apply", "1795361400", "--from-now-on"): Order("apply_from_now_on", "", plan=1795361400),
    ("recommend",): Order("recommend", ""),
    ("pause",): Order("pause", ""),
    ("pause", "--for", "2h", "--by", "ana"): Order("pause", "ana", for_seconds=7200.0),
    ("resume",): Order("resume", ""),
    ("resume", "jobs"): Order("resume", "", server="jobs"),
    ("rollback",): Order("rollback", ""),
    ("rollback", "--to-installation"): Order("rollback", "", to="installation"),
}


@pytest.mark.parametrize("words", ORDERS, ids=" ".join)
def test_an_order_arrives_as_it_was_given(
    words: tuple[str, ...], sidecar: ExampleSidecar, printed: Printed
) -> None:
    command, *more = words
    assert printed(command, *more) == f"done: {ORDERS[words].what}"
    (order,) = sidecar.orders
    wanted = ORDERS[words].to_json()
    assert wanted["by"] in order.by
    assert f"(uid {os.geteuid()})" in order.by
    assert order.to_json() == {**wanted, "by": order.by, "node": "cache-1"}
    assert json.loads(printed(command, *more, "--json")) == {"done": f"done: {order.what}"}


def test_a_refused_order_fails_with_its_reason(
    sidecar: ExampleSidecar, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sidecar.refuses = "there is no plan that could be carried out"
    assert main(["apply", str(path)]) == 1
    assert capsys.readouterr().err == f"spreds: {sidecar.refuses}\n"
    assert main(["resume", str(path), "sesions"]) == 2
    assert "has no server 'sesions', only sessions," in capsys.readouterr().err
    assert sidecar.orders == []


def test_plan_is_a_table_with_reasons(
    sidecar: ExampleSidecar, printed: Printed, path: Path
) -> None:
    text = printed("plan", "--verbose")
    first, *_ = sidecar.document["servers"]
    error = f"{first['name']} {100 * first['curve_error_ratio']:.1f}"
    assert f"hits by the curves may be off, in points: {error}, " in text
    for words in (
        "not carried out (the mode is recommend",
        "mean access time from 9.12 ms to 6.42 ms, 29.61% less after the cost of moving",
        "sessions 2 GiB 3 GiB +1 GiB 87.0 -> 93.8 % ",
        "total 8 GiB of 8 GiB",
        "jobs: its maxmemory-policy is noeviction",
        "other budgets, as its planner says by the curves: as fast as now with 5.73 GiB of 8 GiB 1",
        "8 GiB, this one 6.35 ms 8.98 ms 89.4 % 1,702 2,407",
        "10 GiB 5.31 ms 7.2 ms ",
        "in the end, when all moves are made and have paid, as far as reads have reached; access",
        "proven: no other division that its rules allow is better",
        f"to carry it out: spreds apply {path} {CYCLE}",
    ):
        assert words in text
    assert json.loads(printed("plan", "--json")) == sidecar.document["last_plan"]
    known = "how far curves are known: pages up to 3 MiB (12 sampled keys)"
    sidecar.document["last_plan"]["known_words"] = known
    for command in ("plan", "explain"):
        assert known in printed(command, "--verbose")
    text = printed("plan", "--verbose")
    assert "by what is known so far: no other division that its rules allow" in text
    assert "proven: " not in text
    assert f"cost of moving; {known}" in printed("status", "--verbose")
    assert known not in printed("status")
    first = sidecar.document["servers"][0]
    has, first["maxmemory_bytes"] = first["maxmemory_bytes"], 1 << 30
    text = printed("plan", "--verbose")
    assert "server counts from has now recommended change" in text
    assert "sessions 2 GiB 1 GiB 3 GiB +2 GiB " in text
    assert "with other sizes than the plan counts from" in text
    first["maxmemory_bytes"] = has
    assert "counts from" not in printed("plan", "--verbose")
    sidecar.document["last_plan"]["carried_out"] = True
    assert "carried out: by the curves, mean access" in printed("plan")
    assert "spreds apply" not in printed("plan")
    server = sidecar.document["servers"][0]
    server["target_bytes"] = server["maxmemory_bytes"]
    assert "being carried out" not in printed("status")
    server["target_bytes"] += MIB
    assert f"being carried out ({server['name']} on the way): mean access" in printed("status")
    sidecar.document["pause"] = {"by": "bob", "at_seconds": 1.7e9, "why": "", "until_seconds": None}
    assert "carried out in part (sessions on the way when the pause began)" in printed("status")
    sidecar.document["last_plan"]["overtaken_by"] = "rollback by bob"
    assert "carried out, and sizes have changed since (rollback by bob): mean access" in printed(
        "status"
    )
    sidecar.document["last_plan"] = None
    assert "none since the sidecar started; the next observation is due by" in printed(
        "plan", code=1
    )


def test_plan_of_a_document_asks_nobody(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    document = Path(__file__).parents[2] / "golden" / "plan-1.json"
    assert main(["plan", "--document", str(document)]) == 0
    assert "changes sizes: by the curves, mean access time" in capsys.readouterr().out
    assert main(["plan", "--document", str(path)]) == 2
    assert main(["plan"]) == 2
    assert main(["plan", str(path), "--document", str(document)]) == 2


def test_explain_a_server_says_why_since_when_and_what_another_size_would_bring(
    sidecar: ExampleSidecar, printed: Printed, path: Path
) -> None:
    history = History(path.with_name("state.json.history"))
    sizes = {"sessions": 2048 * MIB, "pages": 2048 * MIB, "jobs": 512 * MIB}
    before = {"sessions": 1792 * MIB, "pages": 2304 * MIB, "jobs": 512 * MIB}
    history.add(
        "plan",
        "moved",
        cycle=CYCLE - 7200,
        carried_out=True,
        sizes_before_bytes=before,
        sizes_bytes=sizes,
    )
    text = printed("explain", "sessions", "--verbose")
    assert "10.0.0.7:6379 follows it and grows with it" in text
    for words in (
        "sessions has 2 GiB (maxmemory); 3 GiB is recommended.",
        "Why: 1024 MiB more bring its mean access time from 8.412 ms to 5.077 ms.",
        "when it went from 1.75 GiB to 2 GiB: grew by 256 MiB",
        "In that plan pages shrank by 256 MiB.",
        "One more MiB, beyond the planned 3 GiB, would shorten the mean of all servers by 0.0021 ",
        "By its curve it hits 87.",
        "with half as much (1 GiB), ",
        "It may have from 256 MiB (its team's, signed team checkout) to as much as there is.",
        "weight 2 (its team's, signed team checkout)",
        "Its backend latency is 80 ms, as its team says.",
        "--glossary adds what the words mean.",
    ):
        assert words in text
    assert "the share of the reads" not in text
    with_words = printed("explain", "sessions", "--glossary", "--verbose")
    assert "What the words mean: access time: what a read takes" in with_words
    assert "hit ratio: the share of the reads" in with_words
    held = printed("explain", "jobs")
    assert (
        "It cannot be given another size now, because its maxmemory-policy is noeviction." in held
    )
    assert "SPREDS has not changed its size so far." in printed("explain", "jobs", "--verbose")
    words = json.loads(printed("explain", "jobs", "--json"))["words"]
    assert "hit ratio" in words


def test_a_server_is_said_to_be_on_the_way_only_while_it_is(
    sidecar: ExampleSidecar, printed: Printed
) -> None:
    server = sidecar.document["servers"][0]
    server["target_bytes"] = server["last_change"]["to_bytes"] = 3072 * MIB
    sidecar.document["sets_sizes"] = True
    text = printed("explain", "sessions", "--verbose")
    assert "sessions has 2 GiB (maxmemory), and is on the way to 3 GiB." in text
    assert "It is being brought from 1.75 GiB to 3 GiB since" in text
    assert "and has 2 GiB now: grew by" in text
    expected = "measured as 87.0 %; it has 2 GiB now, and 87.0 % are expected with 3 GiB"
    assert expected in text
    pause = {"by": "bob", "at_seconds": 1.7e9, "why": "", "until_seconds": None}
    sidecar.document["pause"] = pause
    text = printed("explain", "sessions", "--verbose")
    assert "3 GiB is planned, and nothing is set while SPREDS pauses." in text
    assert "on the way" not in text
    assert "has had this size" not in text
    sidecar.document["pause"] = None
    server["held"] = {"bytes": 2048 * MIB, "at_seconds": 1.7e9}
    text = printed("explain", "sessions", "--verbose")
    assert "Somebody gave it 2 GiB by hand" in text
    wrong = ("on the way", "is being brought", "is planned")
    assert not [words for words in wrong if words in text]


def test_it_is_told_where_curve_and_server_are_farther_apart_than_the_curves_error(
    sidecar: ExampleSidecar, printed: Printed
) -> None:
    server = sidecar.document["servers"][0]
    long = ("--verbose",)
    assert "farther apart" not in printed("explain", "sessions", *long) + printed("plan", *long)
    assert "farther from the curve" not in printed("plan")
    server["hit_ratio"] = 0.7
    assert "farther from the curve than its error: sessions to carry" in printed("plan")
    for text in (printed("explain", "sessions", *long), printed("plan", *long)):
        (told,) = re.findall(
            r"By its curve sessions would hit (8\S+)% with .*?: why is not known", text
        )
        assert 80 < float(told) < 90
        assert "and 70.0% was measured in the last window" in text
    server["curve_error_ratio"] = 0.3
    assert "farther apart" not in printed("explain", "sessions", *long) + printed("plan", *long)


def test_a_hit_ratio_that_is_hardly_known_has_its_error_beside_it(
    sidecar: ExampleSidecar, printed: Printed
) -> None:
    assert "±" not in printed("plan")
    sidecar.document["servers"][0]["curve_error_ratio"] = 0.19
    assert "93.8 % ± 19 " in printed("plan")


def test_what_is_not_known_is_no_figure(sidecar: ExampleSidecar, printed: Printed) -> None:
    server = sidecar.document["servers"][4]
    server.update(sampler=None, curve=None, backend_latency_seconds=None, keep_reason="no_x: y")
    text = printed("explain", "jobs", "--verbose")
    assert "Its curve is not known, for neither the patch nor the module is in it" in text
    assert "Its backend latency is not known yet." in text
    assert "no_x" not in text
    assert not [words for words in ("One more MiB", "By its curve") if words in text]
    assert "512 MiB 512 MiB - not known - " in printed("plan")
    first = sidecar.document["servers"][0]
    first["marginal_gain_seconds_per_mebibyte"] = 1e-12
    assert "of all servers by hardly anything" in printed("explain", "sessions", "--verbose")


def test_what_the_plan_would_bring_is_told_until_it_is_carried_out(
    sidecar: ExampleSidecar, printed: Printed
) -> None:
    text = printed("explain", "sessions", "--verbose")
    assert "was measured as 87.0 %, expected were 87.0 %, and 93.8 % with the plan" in text
    sidecar.document["last_plan"]["carried_out"] = True
    assert "with the plan" not in printed("explain", "sessions", "--verbose")


def test_status_tells_what_resident_memory_did_to_the_budget(
    sidecar: ExampleSidecar, printed: Printed
) -> None:
    budget = sidecar.document["budget"]
    budget.update(source="rss", configured="9GiB")
    text = printed("status")
    assert "(memory.budget 9GiB, which resident memory lowered to 8 GiB)" in text
    budget.update(source="file", rss_budget_bytes=None)
    text = printed("status", "--verbose")
    assert "; on top of maxmemory come, and are not held: forks 96 MiB" in text
    assert "set aside" not in text
    sidecar.document["recommended_gain"]["ratio"] = -0.0026
    assert "would have been 0.26 % longer" in printed("status", "--verbose")


def test_explain_the_node_ends_with_its_last_plan(
    sidecar: ExampleSidecar, printed: Printed
) -> None:
    text = printed("explain")
    assert "servers share 8 GiB" in text
    assert "The last plan: 30min ago" in text
    text = printed("explain", "--verbose")
    assert "servers share 8 GiB" in text
    assert "The last plan: 30min ago" in text
    assert "jobs: its maxmemory-policy is noeviction" in text


def test_the_glossary_needs_no_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--glossary"]) == 0
    assert "maxmemory: the setting of Redis" in capsys.readouterr().out
    assert main(["explain"]) == 2


def test_history_folds_what_kept_all_sizes_and_works_without_the_sidecar(
    path: Path, printed: Printed
) -> None:
    assert printed("history") == "nothing has happened yet"
    history = History(path.with_name("state.json.history"))
    for cycle in range(41):
        history.add("plan", "kept", cycle=cycle, decision="keep", reason=f"small_gain: {cycle}")
    history.add(
        "plan",
        "sizes changed",
        cycle=41,
        decision="apply",
        carried_out=True,
        sizes_before_bytes={"jobs": 3 * MIB, "pages": MIB},
        sizes_bytes={"jobs": 2 * MIB, "pages": MIB},
        reasons={"jobs": "shrinks: it does not need it"},
    )
    history.add(
        "check",
        "the promise was not kept",
        cycle=41,
        predicted_seconds=0.001,
        observed_seconds=0.002,
        without_seconds=0.0015,
        verdict="rolled_back",
    )
    history.add("rollback", "back to the sizes before cycle 41", why="it did harm")
    history.add("order", "paused", by="ana", server="pages")
    text = printed("history")
    for words in (
        "41 plans kept all sizes, the last one: 40",
        "jobs 3 MiB -> 2 MiB (it does not need it)",
        "outcome: the promise was not kept",
        "rollback: back to the sizes before cycle 41",
        "order (by ana): paused",
    ):
        assert words in text
    assert "pages 1 MiB" not in text
    assert "41 plans" not in printed("history", "--limit", "4")
    of_jobs = printed("history", "--server", "jobs")
    assert "jobs 3 MiB" in of_jobs
    assert "paused" not in of_jobs
    assert len(json.loads(printed("history", "--json"))) == 45
    assert len(json.loads(printed("history", "--json", "--limit", "2"))) == 2
    assert "paused" in printed("history", "--since", "1h")
    assert printed("history", "--since", "1us") == "nothing has happened since then"
    assert "has no server" not in of_jobs


def test_history_of_no_server_is_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", str(path), "--server", "nobody"]) == 2
    assert "has no server 'nobody'" in capsys.readouterr().err


def test_commands_that_ask_start_without_what_only_the_sidecar_needs(
    sidecar: ExampleSidecar, path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sidecar.cli", "pause", path],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"boto3", "zmq", "redis", "numpy", "sidecar.daemon"}


def test_a_sidecar_that_plans_by_itself_starts_without_what_only_a_cloud_needs() -> None:
    program = "import sys, sidecar.daemon; print(*sys.modules)"
    imported = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert "sidecar.controllers.embedded" in imported
    assert not {"boto3", "cryptography.x509", "sidecar.delivery.notification"} & set(imported)


@pytest.mark.parametrize(("key", "value"), [("not_served", ["listen"]), ("stands_still", True)])
def test_what_is_not_served_or_stands_still_is_told_by_the_exit_code_of_status(
    key: str,
    value: object,
    write_node: WriteNode,
    start_server: StartServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_node({"jobs": start_server("12mb").url}, budget="24mb")
    watched = ExampleSidecar()
    watched.document["node"] = "n1"
    watched.document["budget"]["bytes"] = 24 * MIB
    with OperatorsServer(OperatorsConfig(socket=path.with_name("state.json.sock")), watched):
        assert main(["status", str(path)]) == 0
        watched.document[key] = value
        watched.document["problems"] = ["operators.listen: 127.0.0.1:1 cannot be bound"]
        capsys.readouterr()
        assert main(["status", str(path)]) == 1
        assert "cannot be bound" in capsys.readouterr().out


def test_a_sum_that_nobody_lowers_has_a_remedy(
    write_node: WriteNode, start_server: StartServer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_node({"jobs": start_server("24mb").url}, budget="12mb")
    watched = ExampleSidecar()
    watched.document["node"] = "n1"
    watched.document["budget"]["bytes"] = 12 * MIB

    def status() -> str:
        assert main(["status", str(path)]) == 1
        return " ".join(capsys.readouterr().out.split())

    with OperatorsServer(OperatorsConfig(socket=path.with_name("state.json.sock")), watched):
        pause = {"by": "bob", "at_seconds": 1.7e9, "why": "", "until_seconds": None}
        watched.document.update(sets_sizes=True, pause=pause)
        assert "nothing is set while SPREDS pauses: `spreds resume FILE` ends" in status()
        watched.document["pause"] = None
        assert "too much" not in status()


# --- ``spreds explain`` tells of the node's own file.


NODE = """
node = "n"
[memory]
budget = "1GiB"
[sampling]
endpoint = "ipc:///tmp/x"
[cycle]
maximum_age = "2h"
samples = 1234
[planning]
minimum_gain_ratio = 0.03
{forecast}
[[server]]
name = "a"
url = "redis://127.0.0.1:1"
[[server]]
name = "b"
url = "redis://127.0.0.1:2"
"""


@pytest.mark.parametrize(
    ("forecast", "told"),
    [
        ("", ("2 servers share 1 GiB", "10min to 12h", "after 2h", "1234 samples", "3.00%")),
        ('forecast = "last"', ("2 servers share 1 GiB", "Every 2h", "1234 samples", "3.00%")),
    ],
)
def test_it_tells_when_and_by_what_plans_are_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], forecast: str, told: tuple[str, ...]
) -> None:
    path = tmp_path / "node.toml"
    path.write_text(NODE.format(forecast=forecast))
    assert main(["explain", str(path), "--verbose"]) == 0
    output = capsys.readouterr().out
    for words in told:
        assert words in output


def test_it_knows_how_far_back_one_looks() -> None:
    assert (HALF_LIVES_CYCLES[0], HALF_LIVES_CYCLES[-1]) == (explain._SHORTEST, explain._LONGEST)


def test_milliseconds_stand_beside_the_amount_that_they_were_computed_for() -> None:
    words = "128 KiB less cost it 0.02079 ms (1 ms to 1.021 ms), which others more than save"
    have, step = 13 << 20, 128 << 10
    assert reason_with_planned_change(words, have, have - step) == words
    assert reason_with_planned_change(f"shrinks: {words}", have, have - step) == f"shrinks: {words}"
    # On its way, by several plans: 128 KiB are the last one's.
    for change in (-step - 1024, step, -8 * step):
        said = reason_with_planned_change(f"shrinks: {words}", have, have + change)
        was = format_size(have + change + step)
        assert said == words.replace("less", f"less than the {was} planned before")
        assert reason_with_planned_change(said, have, have + change) == said
    assert reason_with_planned_change(words, 0, have) == words
    assert reason_with_planned_change("given back", have, have - step) == "given back"


def _sentences(name: str, changes: dict[str, Any], **config: Any) -> str:
    status = example_status()
    for server in status["servers"]:
        server.update(changes)
    return "\n".join(server_sentences(ServerConfig(name, "", **config), status, []))


def test_the_node_is_told_what_became_of_the_last_plan_that_was_checked() -> None:
    status = example_status()
    status["last_check"]["words"] = "too early to tell: plan 7"
    assert "The last outcome: too early to tell: plan 7." in last_plan_sentences(status)


def test_a_server_that_the_running_sidecar_does_not_know_is_told() -> None:
    said = _sentences("new", {})
    assert said.startswith("The sidecar that runs does not know new")
    assert "Restart the sidecar" in said


def test_who_is_down_is_not_said_to_have_no_sampler() -> None:
    gone = {"curve": None, "sampler": None, "keep_reason": None}
    assert "neither the patch nor the module" in _sentences("sessions", gone)
    down = _sentences("sessions", {**gone, "up": False, "error": "Connection refused."})
    assert "Its curve is not known: nor" in down
    assert "neither the patch" not in down


def test_without_a_curve_what_a_plan_says_of_more_memory_is_called_a_guess() -> None:
    unknown = {"curve": None, "keep_reason": None}
    assert "a guess from its first reads" in _sentences("sessions", unknown)
    assert "a guess from its first reads" not in _sentences("sessions", {})
    assert "a guess from its first reads" not in _sentences(
        "sessions", {**unknown, "keep_reason": "too few samples"}
    )


def test_a_configured_latency_is_known_before_the_first_observation() -> None:
    unseen = {"backend_latency_seconds": None}
    assert "20 ms in the node's file" in _sentences(
        "sessions", unseen, backend_latency_seconds=0.02
    )
    assert "is not known yet" in _sentences("sessions", unseen)


def test_the_reason_for_the_size_in_force_comes_before_what_the_last_plan_says() -> None:
    """A size by hand, or of an earlier plan, is not explained by the last one."""
    by_plan = _sentences("sessions", {})
    assert by_plan.index("Why: ") < by_plan.index("The plan as a whole")
    change = {
        **example_status()["servers"][0]["last_change"],
        "cycle": None,
        "words": "by an order",
    }
    held = {"held": {"bytes": 3 * MIB, "at_seconds": 0.0}}
    for other in (held, {"last_change": change}):
        said = _sentences("sessions", {"recommended_bytes": None, **other})
        assert "Why: " not in said
        assert said.index("at 2026-11-22") < said.index("The last plan says of it: ")


def test_a_cache_that_is_not_full_is_no_changed_load() -> None:
    size = 2048 * MIB
    few = {"hit_ratio": 0.1, "used_bytes": size // 4, "curve_error_ratio": 0.01}
    curve = {"sizes_bytes": [0.0, float(size)], "miss_ratios": [1.0, 0.1]}
    apart = apart_words({"name": "a", "maxmemory_bytes": size, "curve": curve, **few})
    assert (apart or "").endswith("it has filled only 512 MiB of 2 GiB so far.")
    more = {**few, "hit_ratio": 0.99}
    apart = apart_words({"name": "a", "maxmemory_bytes": size, "curve": curve, **more})
    assert (apart or "").endswith("if neither is so, why is not known.")
    full = {**few, "used_bytes": size}
    apart = apart_words({"name": "a", "maxmemory_bytes": size, "curve": curve, **full})
    assert (apart or "").endswith("or the window too short to tell.")


def test_what_counts_anew_is_told_with_the_changes_of_a_day() -> None:
    """After one more step of the same way nobody knew any more who had brought it about."""
    history = [
        {"kind": "yardstick", "at_seconds": 1.0, "words": "weights changed: pages 1 -> 2"},
        {"kind": "plan", "at_seconds": 2.0, "carried_out": True},
        {"kind": "yardstick", "at_seconds": 3.0, "words": "weights changed: feed 1 -> 5"},
        {"kind": "plan", "at_seconds": 4.0, "carried_out": False},
        {"kind": "plan", "at_seconds": 9.0, "carried_out": True},
    ]
    first, second = (1.0, "weights changed: pages 1 -> 2"), (3.0, "weights changed: feed 1 -> 5")
    assert _what_counted_anew(history, 9.0) == [first, second]
    assert _what_counted_anew(history, 2.0) == [first]
    assert _what_counted_anew(history, 86_402.0) == [second]
    assert _what_counted_anew(history[1:2], 9.0) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="to be another user takes root")
@pytest.mark.parametrize("command", ["history", "status"])
def test_files_that_anybody_may_have_made_are_not_believed(
    command: str,
    start_server: StartServer,
    write_node: WriteNode,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """While no sidecar runs, a folder below a shared one may be a stranger's."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    theirs = shared / "theirs"
    theirs.mkdir()
    entry = {"at_seconds": 1.0, "kind": "order", "by": "root (uid 0)", "words": "FORGED"}
    (theirs / "state.json.history").write_text(json.dumps({**entry, "number": 1}) + "\n")
    for one in (theirs, theirs / "state.json.history"):
        os.chown(one, 65534, 65534)
    path = write_node({"s": start_server("12mb")})
    text = path.read_text()
    path.write_text(re.sub(r"(?m)^state_file = .*$", f'state_file = "{theirs}/state.json"', text))
    assert main([command, str(path)]) == 2
    captured = capsys.readouterr()
    assert "belongs to nobody (uid 65534), who may have made it himself" in captured.err
    assert "FORGED" not in captured.out + captured.err


def test_explain_tells_what_happened_to_a_server_in_the_last_day() -> None:
    """Of a cache that was cut twice only the last, small cut was told."""
    sizes = ((16, 3.3), (3.3, 2.6), (2.6, 3.2))
    entries: list[dict[str, Any]] = [
        {
            "kind": "plan",
            "at_seconds": 1e6 + place,
            "words": "moves memory",
            "carried_out": True,
            "cycle": 7 + place,
            "sizes_before_bytes": {"thumbs": round(before * MIB), "sess": MIB},
            "sizes_bytes": {"thumbs": round(after * MIB), "sess": MIB},
        }
        for place, (before, after) in enumerate(sizes)
    ]
    entries[2] |= {"kind": "budget", "words": "room for what thumbs cannot evict: thumbs"}
    shown = {**entries[1], "carried_out": False, "cycle": 99}
    restart = {"kind": "server", "at_seconds": 1e6 + 9, "words": "was restarted"}
    both = [
        {**restart, "server": name, "words": f"{name} restarted"} for name in ("thumbs", "sess")
    ]
    old = {**entries[0], "at_seconds": 1e6 - 90_000}
    (told,) = in_the_last_day("thumbs", [old, *entries, shown, *both], 1e6 + 10)
    assert "16 MiB -> 3.3 MiB, by plan 7; " in told
    assert "2.6 MiB -> 3.2 MiB, to make room for what thumbs cannot evict; " in told
    assert told.endswith(": thumbs restarted.")
    assert told.count(";") == 3
    assert in_the_last_day("thumbs", entries[:1], 1e6 + 10) == []
    assert in_the_last_day("sess", [*entries, *both], 1e6 + 10) == []
    back = {"kind": "rollback", "at_seconds": 1e6 + 9, "words": "plan 8 failed", "cycle": 8}
    (told,) = in_the_last_day("thumbs", [*entries, {**back, "at_fault": None}], 1e6 + 10)
    assert told.endswith(": plan 8 was taken back.")
    (told,) = in_the_last_day("thumbs", [*entries, {**back, "at_fault": "sess"}], 1e6 + 10)
    assert "taken back" not in told


@pytest.mark.parametrize(("rate", "names"), [(3.0, []), (100.0, ["idle"])])
def test_one_that_is_hardly_read_makes_no_gain_a_guess(rate: float, names: list[str]) -> None:
    """An idle cache made each plan of the others a guess, for as long as it was idle."""
    servers = [
        {"name": "busy", "curve": [[1, 1]], "reads_per_second": 1000.0},
        {"name": "idle", "curve": None, "reads_per_second": rate},
        {"name": "down", "curve": None, "reads_per_second": None},
    ]
    told = {"servers": [{**one, "weight": 1.0, "keep_reason": None} for one in servers]}
    assert guessed(told) == names
