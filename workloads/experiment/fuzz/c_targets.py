"""The C: each target is built with ASan and UBSan, and run by libFuzzer or by a plain driver."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).resolve().parents[3]
_HERE = Path(__file__).parent / "c"
CLANG = "clang-16"
PACKAGES = f"{CLANG} libclang-rt-16-dev"
_FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
_SHOWN_CHARACTERS = 6000
_SAMPLER = tuple(f"redis_patch/{part}.c" for part in ("sampler", "transport", "kept_scheduling"))
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")


class Target(NamedTuple):
    """``<name>_target.c`` and what it calls; ``most_bytes`` is the longest input."""

    name: str
    sources: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    most_bytes: int = 1024


TARGETS = (
    Target("sampler", _SAMPLER, ("-lzmq",)),
    Target("lines", ("sidecar/kernel/lines.c",)),
    Target("stack", ("sidecar/kernel/lru_stack.c", "sidecar/kernel/shards.c")),
)


class Ran(NamedTuple):
    """What became of a target: how many inputs, and what was reported, ``""`` if nothing was."""

    target: str
    runs: int
    report: str


def why_no_libfuzzer() -> str | None:
    """What is missing for it, or None."""
    if shutil.which(CLANG) and list(Path("/usr/lib/llvm-16").glob("**/libclang_rt.fuzzer-*.a")):
        return None
    return f"libFuzzer is missing: apt-get install {PACKAGES}"


def run_plainly(target: Target, runs: int, seed: int) -> Ran:
    """With gcc alone, and the same inputs each time."""
    with tempfile.TemporaryDirectory(prefix="spreds-fuzz-") as folder:
        program = _build(target, Path(folder), ["cc"], [_HERE / "plain_driver.c"])
        return _run(target, [program, str(runs), str(seed)], runs)


def run_libfuzzer(target: Target, runs: int, seed: int, seconds: int) -> Ran:
    """By what its coverage tells; so many inputs, or so long."""
    with tempfile.TemporaryDirectory(prefix="spreds-fuzz-") as folder:
        program = _build(target, Path(folder), [CLANG, "-fsanitize=fuzzer"], [])
        options = [
            f"-runs={runs}",
            f"-seed={seed}",
            f"-max_len={target.most_bytes}",
            f"-max_total_time={seconds}",
            "-print_final_stats=1",
            f"-artifact_prefix={folder}/",
        ]
        return _run(target, [program, *options], runs)


def _build(target: Target, folder: Path, compiler: list[str], more: list[Path]) -> str:
    program = folder / target.name
    sources = [_HERE / f"{target.name}_target.c", *(_ROOT / name for name in target.sources), *more]
    command = [*compiler, *_FLAGS, f"-I{_ROOT / 'redis_patch'}", *map(str, sources)]
    subprocess.run([*command, *target.libraries, "-o", str(program)], check=True)
    return str(program)


def _run(target: Target, command: list[str], runs: int) -> Ran:
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    executed = _EXECUTED.search(ended.stderr)
    report = ended.stderr[-_SHOWN_CHARACTERS:] if ended.returncode else ""
    if ended.returncode and not report:
        report = f"it ended with {ended.returncode}"
    return Ran(target.name, int(executed[1]) if executed else runs, report)
