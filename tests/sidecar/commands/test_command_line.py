"""All parsers of ``spreds``: help that reads as sentences, JSON everywhere, completion, version."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from sidecar.base import log_setup
from sidecar.cli import main
from sidecar.commands.parser import COMMANDS, make_parser
from tests.sidecar.fixtures import WriteNode
from tests.sidecar.no_threads import refuse_threads

# Messages, not data: these have nothing to print for a program.
WITHOUT_JSON = {"run", "completion", "module"}


def walk(
    parser: argparse.ArgumentParser, name: str = "spreds"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from walk(below, f"{name} {word}")


PARSERS = dict(walk(make_parser()))


@pytest.mark.parametrize("name", PARSERS)
def test_help_reads_as_a_sentence(name: str) -> None:
    parser = PARSERS[name]
    description = parser.description or ""
    assert re.fullmatch(r"[A-Z][^\n]*\.", description), description
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                assert (choice.help or "")[:1].islower(), choice.dest
            continue
        assert action.help, f"{name}: {action.dest} has no help"
        assert action.help[0].islower(), action.help
        assert not action.help.endswith("."), action.help
    assert parser.format_help()


@pytest.mark.parametrize("name", [name for name, p in PARSERS.items() if name != "spreds"])
def test_each_command_can_print_json(name: str) -> None:
    parser = PARSERS[name]
    if any(isinstance(action, argparse._SubParsersAction) for action in parser._actions):
        return
    has = "--json" in {text for action in parser._actions for text in action.option_strings}
    assert has == (name.split()[1] not in WITHOUT_JSON)


def test_each_command_is_there_by_itself() -> None:
    for command in COMMANDS:
        names = {name.split()[1] for name, _ in walk(make_parser([command])) if " " in name}
        assert command in names
        assert names == {other for other in COMMANDS if COMMANDS[other] == COMMANDS[command]}


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"spreds {version('spreds')}\n"


def _completed(words: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Return what bash offers after these words, the last of them half typed."""
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    typed = words.split(" ")
    program = (
        f"{script}\nCOMP_WORDS=({' '.join(repr(word) for word in typed)})\n"
        f"COMP_CWORD={len(typed) - 1}\n_spreds\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    # In a folder whose files have no letters in their names.
    command = ["bash", "-u", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/proc/self/fd")
    return set(done.stdout.split())


def test_bash_completes_commands_options_and_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert _completed("spreds re", capsys) == {"recommend", "resume"}
    assert _completed("spreds pause --f", capsys) == {"--for"}
    assert _completed("spreds weights s", capsys) == {"show", "set"}
    assert "--backend-latency" in _completed("spreds weights set --b", capsys)
    assert _completed("spreds completion z", capsys) == {"zsh"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_their_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command in COMMANDS:
        assert command in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: its script was not run")
    subprocess.run([shell, "-n"], input=script, text=True, check=True)
    if shell == "fish":
        asked = [*(f"complete -C '{words}'" for words in ("spreds re", "spreds pause --f"))]
        done = subprocess.run(
            ["fish", "--no-config", "-c", "\n".join([script, *asked])],
            capture_output=True,
            text=True,
            check=True,
        )
        offered = {line.partition("\t")[0] for line in done.stdout.splitlines()}
        assert {"recommend", "resume", "--for"} <= offered
        assert "run" not in offered


def test_who_reads_only_the_first_lines_is_told_nothing_more() -> None:
    command = [sys.executable, "-m", "sidecar.cli", "explain", "--glossary"]
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_option_that_does_not_exist_is_refused_by_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["weights", "set", "pages", "--weigth", "2"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: spreds weights set ")
    assert "unrecognized arguments: --weigth 2; did you mean --weight?" in " ".join(said.split())


def test_a_machine_without_threads_is_one_sentence(
    write_node: WriteNode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node = write_node({"a": "redis://127.0.0.1:1"})
    refuse_threads(monkeypatch)
    monkeypatch.setattr(log_setup, "set_up_log", lambda *_, **__: None)  # it would stay so
    assert main(["run", str(node)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "spreds: can't start new thread"
