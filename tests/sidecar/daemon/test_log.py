"""The sidecar's log: a line a change, nothing twice in a row, little on an idle day."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence

import pytest

from sidecar.base import log_setup
from sidecar.base.hourly_summary import HourlySummary
from sidecar.base.log_setup import (
    ALWAYS,
    BOUNDED,
    EVENT,
    MOST_A_MINUTE,
    MOST_CHARACTERS,
    ROUTINE,
    JsonFormatter,
    PlainFormatter,
    RepeatFilter,
    event_of,
)
from sidecar.base.metrics import Metrics
from sidecar.cli import main
from sidecar.config.node import load_config
from sidecar.daemon import Sidecar
from tests.sidecar.fixtures import StartServer, WriteNode
from tests.sidecar.set_clock import Clock
from tests.sidecar.sidecar_process import sidecar_process

log = logging.getLogger("sidecar.tests")
MOST_BYTES_A_DAY = 10 * 1024
HOURS = 24


class Lines(logging.Handler):
    """Keeps the lines that would be written."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(logging.INFO)
        self.addFilter(RepeatFilter(clock, ["cache-1", "cache-12", "6379"]))
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def lines(clock: Clock) -> Iterator[list[str]]:
    handler = Lines(clock)
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    yield handler.lines
    root.removeHandler(handler)
    root.setLevel(level)


def _say(level: int, text: str, *args: object, routine: bool = False) -> None:
    log.log(level, text, *args, extra=ROUTINE if routine else None)


def test_a_trouble_that_lasts_is_told_once_an_hour(clock: Clock, lines: list[str]) -> None:
    for minute in range(125):
        clock.seconds = 60.0 * minute
        _say(logging.WARNING, "cycle %d: no plan in time", minute)
    assert [line.partition(" WARNING ")[2] for line in lines] == [
        "cycle 0: no plan in time",
        "cycle 60: no plan in time (and 59 times before, not logged)",
        "cycle 120: no plan in time (and 59 times before, not logged)",
    ]


def test_what_changes_is_always_told(clock: Clock, lines: list[str]) -> None:
    for number in range(3):
        _say(logging.INFO, "plan: a 1 MiB -> %d MiB", number)
        _say(logging.WARNING, "server %s is out of reach", "abc"[number])
    assert len(lines) == 6


def test_servers_whose_names_differ_in_digits_have_a_trouble_each(
    clock: Clock, lines: list[str]
) -> None:
    for minute in range(125):
        clock.seconds = 60.0 * minute
        for name in ("cache-1", "cache-12", "6379"):
            _say(logging.WARNING, "server %s takes nothing: next try in %d s", name, minute)
        log.warning("%s", f"cache-{12 if minute else 1} lost {minute} times")
    told = [line.partition(" WARNING ")[2] for line in lines]
    assert [line.partition(" takes")[0] for line in told if "takes" in line] == 3 * [
        *("server cache-1", "server cache-12", "server 6379")
    ]
    assert told[-2].endswith("next try in 120 s (and 59 times before, not logged)")
    assert [line for line in told if "lost" in line] == [
        "cache-1 lost 0 times",
        "cache-12 lost 1 times",
        "cache-12 lost 61 times (and 59 times before, not logged)",
        "cache-12 lost 121 times (and 59 times before, not logged)",
    ]


def _not_verbose(arguments: Sequence[str]) -> int:
    return main(["run", *arguments])


def test_each_server_that_is_down_is_told_by_its_name(write_node: WriteNode) -> None:
    path = write_node({f"cache-{place}": f"redis://127.0.0.1:{place}" for place in (1, 2)})
    with sidecar_process(path, _not_verbose) as process:
        for _ in range(2):
            process.read_until("is out of reach")
        assert process.end() == 0
    told = " ".join(process.lines)
    assert "server cache-1 is out of reach" in told
    assert "server cache-2 is out of reach" in told


def test_what_each_cycle_has_is_told_when_its_reason_changes(
    clock: Clock, lines: list[str]
) -> None:
    for cycle, reason in enumerate(["small", "small", "chance", "small", "small"]):
        _say(logging.INFO, "plan: cycle %d, keep, %s", cycle, reason, routine=True)
    assert len(lines) == 3


def test_a_server_that_comes_and_goes_is_told_each_time(clock: Clock, lines: list[str]) -> None:
    for _ in range(3):
        _say(logging.WARNING, "out of reach")
        _say(logging.WARNING, "cycle %d: no plan in time", 1)
        log.info("answers again")
    assert sum("out of reach" in line for line in lines) == 3


def test_what_somebody_does_again_is_told_again(clock: Clock, lines: list[str]) -> None:
    for size in ("5 MiB", "7 MiB", "7.5 MiB"):
        _say(logging.WARNING, "a stays at %s", size)
    for _ in range(2):
        log.warning("a restarted", extra=EVENT)
    assert len(lines) == 5


@pytest.mark.parametrize("text", ["1" * 100_000 + " B", "1." * 50_000 + "x", "1" * 100_000 + ".x"])
def test_a_strangers_digits_keep_nobody_busy(lines: list[str], text: str) -> None:
    """To try each part of them anew would take longer than anybody lives."""
    for _ in range(2):
        log.warning("refused: %s", text)
    assert len(lines) == 1


@pytest.mark.parametrize("formatter", [PlainFormatter("%(message)s"), JsonFormatter()])
def test_a_line_has_an_end(formatter: logging.Formatter) -> None:
    record = log.makeRecord("a", logging.WARNING, "file", 1, "x" * 1_000_000, (), None)
    text = formatter.format(record)
    assert MOST_CHARACTERS < len(text) < MOST_CHARACTERS + 200
    assert "... (984000 more characters)" in text


def test_who_does_something_over_and_over_fills_no_disk(clock: Clock, lines: list[str]) -> None:
    for number in range(600):
        clock.seconds = number / 10
        log.warning("a has %d MiB", number, extra=event_of("a"))
        log.warning("b has 1 MiB", extra=event_of("b"))
        try:
            raise KeyError("x")
        except KeyError:
            log.exception("lost")
    told = [sum(what in line for line in lines) for what in ("a has", "b has", "lost")]
    assert told == [MOST_A_MINUTE] * 3


def test_a_server_that_says_other_words_each_time_fills_no_disk(
    clock: Clock, lines: list[str]
) -> None:
    for number in range(600):
        clock.seconds = number / 10
        log.warning("server cache-1 keeps its size: %s", f"{number:x}z" * 40)
        log.warning("server cache-12 keeps its size: %s", "it refuses")
    told = [sum(f"server {name} " in line for line in lines) for name in ("cache-1", "cache-12")]
    assert told == [MOST_A_MINUTE, 1]


def test_refusals_are_told_once_and_so_many_a_minute(clock: Clock, lines: list[str]) -> None:
    def refuse(texts: list[str], minute: int) -> int:
        before = len(lines)
        for number in range(300):
            clock.seconds = 60.0 * minute + number / 10
            log.info("refused: %s", texts[number % len(texts)], extra=BOUNDED)
        return len(lines) - before

    assert refuse(["no such page"], 0) == 1
    assert refuse(["no such page", "not your name"], 10) == MOST_A_MINUTE
    assert refuse(["no such page", "not your name"], 20) == MOST_A_MINUTE
    assert "times before, not logged" in lines[-MOST_A_MINUTE]


def test_news_between_the_same_news_is_told(clock: Clock, lines: list[str]) -> None:
    for _ in range(5):
        _say(logging.INFO, "the same")
    assert len(lines) == 1
    for _ in range(3):
        _say(logging.WARNING, "a trouble")
        log.info("it is over")
    assert len(lines) == 7


def test_an_error_with_its_traceback_is_told_again(clock: Clock, lines: list[str]) -> None:
    for _ in range(2):
        try:
            raise KeyError("x")
        except KeyError:
            log.exception("lost")
    assert len(lines) == 2


def test_json_has_one_object_a_line() -> None:
    try:
        raise KeyError("x")
    except KeyError as error:
        exc_info = (KeyError, error, error.__traceback__)
    record = logging.LogRecord("sidecar.x", logging.ERROR, "f", 1, "a\n%s", ("b",), exc_info)
    text = JsonFormatter().format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert (line["level"], line["logger"], line["message"]) == ("error", "sidecar.x", "a\nb")
    assert "KeyError" in line["exception"]


def test_the_summary_comes_once_an_hour(clock: Clock, lines: list[str]) -> None:
    metrics = Metrics()
    summary = HourlySummary(metrics, clock)
    for second in range(0, 7300, 10):
        clock.seconds = second
        metrics.observations.inc()
        summary.turn()
    assert [line.partition("INFO ")[2] for line in lines] == [
        "counted in the last 1h: observations 361",
        "counted in the last 1h: observations 360",
    ]


def test_an_idle_day_leaves_little(
    clock: Clock, lines: list[str], write_node: WriteNode, start_server: StartServer
) -> None:
    """The real sidecar with real servers, whose every cycle counts as an hour of the log's."""
    servers = {name: start_server("8mb") for name in "abc"}
    more = (
        '[cycle]\nmaximum_age = "50ms"\nsamples = 1\n'
        '[controller]\nkind = "embedded"\nfolder = "documents"\n'
    )
    path = write_node(servers, budget="24mb", more=more)
    sidecar = Sidecar(load_config(path))
    summary = HourlySummary(sidecar.metrics, clock)
    turn = summary.turn

    def follow() -> None:
        clock.seconds = 3600.0 * sidecar.cycles
        turn()
        if sidecar.cycles > HOURS:
            sidecar.stop()

    summary.turn = follow  # type: ignore[method-assign]
    sidecar._summary = summary
    sidecar.run()
    assert sum("counted in the last" in line for line in lines) >= HOURS / 2
    assert sum("plan: cycle" in line for line in lines) >= 1, lines
    assert sum(len(line.encode()) + 1 for line in lines) < MOST_BYTES_A_DAY


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_running_sidecar_logs_as_its_file_says(
    form: str, write_node: WriteNode, start_server: StartServer
) -> None:
    more = f'[log]\nformat = "{form}"\n[cycle]\nmaximum_age = "500ms"\n'
    more += '[controller]\nkind = "embedded"\n'
    path = write_node({"a": start_server("8mb").url}, budget="24mb", more=more)
    with sidecar_process(path) as process:
        process.read_until("plan: cycle")
        assert process.end() == 0
    messages = []
    for line in process.lines:
        messages.append(json.loads(line)["message"] if form == "json" else line)
    assert any("stopped: " in message for message in messages)


def test_libraries_do_not_talk() -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        log_setup.set_up_log()
        assert not logging.getLogger("botocore.credentials").isEnabledFor(logging.INFO)
        assert logging.getLogger("sidecar.x").isEnabledFor(logging.INFO)
        assert not logging.getLogger("sidecar.x").isEnabledFor(logging.DEBUG)
    finally:
        for handler in root.handlers[:]:
            root.removeHandler(handler)
        for handler in before:
            root.addHandler(handler)
        root.setLevel(level)


def test_what_was_dropped_once_is_not_counted_as_times(clock: Clock, lines: list[str]) -> None:
    for minute in (0, 1, 61):
        clock.seconds = 60.0 * minute
        _say(logging.WARNING, "no plan in time")
    assert lines[-1].endswith("no plan in time (and once before, not logged)")


def test_a_change_is_told_whatever_flood_came_before(clock: Clock) -> None:
    lines = Lines(clock)

    def tell(words: str, extra: dict[str, object]) -> None:
        record = log.makeRecord(log.name, logging.INFO, __file__, 1, words, (), None, extra=extra)
        lines.handle(record)

    for _ in range(100):
        tell("resume by eve: there was nothing to resume", {**EVENT})
    for words in ("apply_from_now_on by ann", "apply_from_now_on by ann", "pause by ann"):
        tell(words, {**ALWAYS})
    assert len(lines.lines) == MOST_A_MINUTE + 3
    assert [line.rpartition("INFO ")[2] for line in lines.lines[-3:]] == [
        "apply_from_now_on by ann",
        "apply_from_now_on by ann",
        "pause by ann",
    ]
    assert lines.lines[-1].endswith("INFO pause by ann")
