"""``python -m workloads experiment commands``."""

from __future__ import annotations

import argparse

from workloads.arguments import at_least, positive, seed
from workloads.experiment.commands.play import Play
from workloads.experiment.commands.tested_server import PHASES, FoundError, Make
from workloads.local_server import supported_servers
from workloads.table import say, text_table

HELP = """Random commands of all kinds for a sampled server under ASan, UBSan and LeakSanitizer,
and for a stock twin in step with it: replies and digests are equal, no sanitizer reports anything,
all that is sampled is well-formed. Needs 'make setup', and sanitized builds (2 to 3 minutes, once):
'redis_patch/build.sh redis-sanitized module-sanitized'. Columns: commands that were sent, digests
that were compared, changes of the sampler's settings (knobs), batches of samples that were checked.
Exit code 1 with the last commands where something is wrong; 2: wrong arguments, or a build is
missing. A seed and a phase draw the same commands again. The phases: docs/develop/fuzzing.md."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server", choices=list(supported_servers()), default="redis", help="default: redis"
    )
    parser.add_argument(
        "--way", choices=("patch", "module"), default="patch", help="default: patch"
    )
    parser.add_argument(
        "--seconds",
        type=at_least(1),
        default=600.0,
        help="for all phases together, at least 1 (default: 600)",
    )
    parser.add_argument("--seed", type=seed, default=1, help="default: 1")
    parser.add_argument("--phase", choices=PHASES, action="append", help="default: all of them")
    parser.add_argument(
        "--commands", type=positive, help="in each phase, at most (default: as the time lasts)"
    )


def run(arguments: argparse.Namespace) -> int:
    make = Make(supported_servers()[arguments.server], arguments.way)
    phases = [PHASES[name] for name in arguments.phase or PHASES]
    rows = []
    for phase in phases:
        made = make._replace(is_sanitized=phase.is_sanitized)
        if made.why_not:
            say(f"experiment commands: {made.why_not}")
            return 2
        seconds = arguments.seconds / len(phases)
        try:
            played = Play(make, phase, arguments.seed, seconds, arguments.commands).play()
        except FoundError as error:
            again = f"--server {arguments.server} --way {arguments.way} --seed {arguments.seed}"
            say(
                f"{error}\n\nexperiment commands: phase {phase.name} failed; again: {again} "
                f"--phase {phase.name}"
            )
            return 1
        rows.append(
            [
                phase.name,
                "ASan, UBSan" if phase.is_sanitized else "none",
                f"{played.commands:,}",
                f"{played.digests:,}",
                f"{played.knobs:,}",
                f"{played.batches:,}",
                f"{played.seconds:.0f}",
            ]
        )
        say(f"{phase.name}: {played.commands:,} commands")
    header = ["phase", "sanitizers", "commands", "digests", "knobs", "batches", "seconds"]
    print(text_table(header, rows))
    return 0
