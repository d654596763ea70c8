"""``cdk bootstrap`` and ``cdk deploy``, unmodified, to the local emulator.

``python -m infra.deploy_local`` starts an emulator, deploys ``infra/stack.toml``, writes all
stacks' outputs to ``build/outputs.json``, and keeps the emulator running until it is interrupted.
Beside it, ``--into-running`` deploys again, as after a node was added: what is there stays.
In a program, ``deploy(emulator)`` gives the outputs.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from infra.emulator.process import ACCOUNT, DEFAULT_PORT, REGION, Emulator, RunningEmulator

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build"
CDK = HERE / "node_modules" / ".bin" / "cdk"
STACK_FILE = HERE / "stack.toml"
CONCURRENT_STACKS = "4"  # as many cells at a time
KEEP_SECONDS = 3600.0  # what was synthesised from other sources


class DeploymentError(RuntimeError):
    """The CDK command failed; the message has what it said."""


def deploy(emulator: RunningEmulator, stack_file: Path = STACK_FILE) -> dict[str, dict[str, str]]:
    """Bring all stacks of ``stack_file`` to the emulator; their outputs, by the stack's name.

    The synthesised application is kept in ``build/``, and made again only when something in it has
    changed.

    Raises:
        DeploymentError: the CDK command failed.
        FileNotFoundError: the CDK command is not installed.
    """
    if not CDK.exists():
        raise FileNotFoundError(f"{CDK} is not installed: run 'make setup' first")
    environment = {
        **os.environ,
        # Where there was no Node, it was installed beside Python.
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        **emulator.environment,
        "CI": "1",
        # These programs must not use what others may have put below /tmp.
        "NODE_DISABLE_COMPILE_CACHE": "1",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    bootstrap = _start("bootstrap", f"aws://{ACCOUNT}/{REGION}", environment=environment, cwd=BUILD)
    assembly = _assembly(stack_file)
    try:
        if not assembly.exists():
            _synthesise(stack_file, assembly, environment)
    finally:
        _finish(bootstrap)
    outputs = Path(f"{assembly}-outputs.json")
    _finish(
        _start(
            *("deploy", "--app", str(assembly), "--all", "--require-approval", "never"),
            *("--concurrency", CONCURRENT_STACKS),
            *("--outputs-file", str(outputs)),
            environment=environment,
            cwd=BUILD,
        )
    )
    values = json.loads(outputs.read_text())
    assert isinstance(values, dict)
    return values


def _assembly(stack_file: Path) -> Path:
    """Return where the application is synthesised to, by the digest of what goes into it."""
    digest = hashlib.sha256(sys.version.encode() + stack_file.read_bytes())
    sources = [HERE / "function_requirements.txt", HERE / "cdk.json"]
    # The costs choose the controller of a stack that leaves it to them.
    for pattern in (
        "infra/*.py",
        "infra/costs/*.py",
        "infra/costs/*.json",
        "solver_lambda/**/*.py",
    ):
        sources += HERE.parent.glob(pattern)
    for path in sorted(sources):
        digest.update(str(path.relative_to(HERE.parent)).encode() + b"\0" + path.read_bytes())
    folder = BUILD / "cdk"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{stack_file.stem}-{digest.hexdigest()[:16]}"


def _synthesise(stack_file: Path, assembly: Path, environment: dict[str, str]) -> None:
    for old in assembly.parent.glob(f"{stack_file.stem}-*/"):
        if time.time() - old.stat().st_mtime > KEEP_SECONDS:
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=assembly.parent) as folder:
        made = Path(folder, "assembly")
        context = f"configuration={stack_file.resolve()}"
        _finish(
            _start(
                *("synth", "--quiet", "--output", str(made), "--context", context),
                # There Node looks for settings of what it runs.
                environment={**environment, "TMPDIR": folder},
                cwd=HERE,
            )
        )
        try:
            made.rename(assembly)
        except OSError as error:  # another process made the same just now
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise


def _start(*arguments: str, environment: dict[str, str], cwd: Path) -> subprocess.Popen[str]:
    cwd.mkdir(exist_ok=True)
    return subprocess.Popen(
        [str(CDK), *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _finish(process: subprocess.Popen[str]) -> None:
    try:
        said, _ = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode:
        assert isinstance(process.args, list)
        command = " ".join(["cdk", *map(str, process.args[1:])])
        raise DeploymentError(f"`{command}` failed:\n{said[-4000:]}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.deploy_local",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--port", type=int, default=DEFAULT_PORT, help="of the emulator (default: %(default)s)")
    add(
        "--stack", type=Path, default=STACK_FILE, metavar="FILE", help="instead of infra/stack.toml"
    )
    add("--outputs", type=Path, default=BUILD / "outputs.json", metavar="FILE")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--once", action="store_true", help="stop the emulator after deploying")
    how.add_argument(
        "--into-running", action="store_true", help="deploy into the emulator on that port"
    )
    return parser


def _main() -> int:
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if arguments.into_running:
            _deploy_told(RunningEmulator(arguments.port), arguments.stack, arguments.outputs)
            return 0
        with Emulator(arguments.port) as emulator:
            _deploy_told(emulator, arguments.stack, arguments.outputs)
            if not arguments.once:
                for name, value in emulator.environment.items():
                    print(f"export {name}={value}", flush=True)
                _say("the emulator runs until Ctrl-C")
                signal.pause()
    except KeyboardInterrupt:
        _say("stopped")
    except (DeploymentError, OSError, RuntimeError) as error:
        _say(str(error))
        return 1
    return 0


def _deploy_told(emulator: RunningEmulator, stack_file: Path, outputs: Path) -> None:
    started = time.monotonic()
    _say(f"deploys {stack_file}: that takes a minute or so")
    values = deploy(emulator, stack_file)
    outputs.parent.mkdir(parents=True, exist_ok=True)
    outputs.write_text(json.dumps(values, indent=2) + "\n")
    _say(f"deployed in {time.monotonic() - started:.1f} s; outputs in {outputs}")


def _say(text: str) -> None:
    print(f"deploy-local: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(_main())
