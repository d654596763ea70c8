"""``spreds completion bash|zsh|fish`` prints what a shell completes after ``spreds``."""

from __future__ import annotations

import argparse
from typing import Any

from sidecar.commands.arguments import add_command

_BASH = """\
_spreds() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" words=""
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[2]:-}}" in
{cases}
    esac
    [ "$COMP_CWORD" -eq 1 ] && words="{commands}"
    COMPREPLY=($(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur"))
}}
complete -o filenames -F _spreds spreds
"""


def add_parser(commands: Any) -> None:
    """Add the command's arguments."""
    parser = add_command(
        commands,
        "completion",
        "print what makes your shell complete spreds",
        file=False,
        json=False,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")
    parser.epilog = (
        'bash: eval "$(spreds completion bash)" in ~/.bashrc; zsh the same in ~/.zshrc, after '
        "compinit; fish: spreds completion fish > ~/.config/fish/completions/spreds.fish"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Print the shell's script."""
    from sidecar.commands.parser import make_parser

    found = _commands(make_parser())
    if options.shell == "fish":
        print("\n".join(_fish(found)))
    else:
        text = _BASH.format(cases="\n".join(_bash_cases(found)), commands=" ".join(_tops(found)))
        print("autoload -U bashcompinit && bashcompinit" if options.shell == "zsh" else "", end="")
        print(f"\n{text}" if options.shell == "zsh" else text, end="")
    return 0


class _Command:
    """Holds one command, with the words before it."""

    def __init__(self, words: tuple[str, ...], parser: argparse.ArgumentParser, help_text: str):
        self.words = words
        self.help = help_text
        # The only way to the options that argparse has.
        actions = parser._actions
        self.options = [
            (text, a.help) for a in actions for text in a.option_strings if len(text) > 2
        ]
        self.choices = [
            str(choice) for a in actions if not a.option_strings for choice in a.choices or ()
        ]


def _commands(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> list[_Command]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, below in action.choices.items():
                found.append(_Command((*words, name), below, helps.get(name, "")))
                found += _commands(below, (*words, name))
    return found


def _tops(found: list[_Command]) -> list[str]:
    return [command.words[0] for command in found if len(command.words) == 1]


def _bash_cases(found: list[_Command]) -> list[str]:
    # Commands with more words come first, for they also match those with fewer.
    ordered = sorted(found, key=lambda command: -len(command.words))
    return [
        f'        "{" ".join(command.words)}"*) words="'
        f'{" ".join([*command.choices, *(text for text, _ in command.options)])}" ;;'
        for command in ordered
    ]


def _fish(found: list[_Command]) -> list[str]:
    lines = []
    for command in found:
        words, first = command.words, command.words[0]
        if len(words) == 1:
            lines.append(
                f"complete -c spreds -n __fish_use_subcommand -a {first} -d {_q(command.help)}"
            )
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in words)
        for choice in command.choices:
            lines.append(f'complete -c spreds -n "{seen}" -a {choice}')
        for text, help_text in command.options:
            said = _q(help_text or "")
            lines.append(f'complete -c spreds -n "{seen}" -l {text.removeprefix("--")} -d {said}')
    return lines


def _q(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
