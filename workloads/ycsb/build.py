"""Builds the binding on demand: Maven brings YCSB's core and a Redis client, javac does the rest.

YCSB is under Apache-2.0, jedis under MIT; neither is part of the project, nor bundled with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from workloads.local_server import BUILD

_FOLDER = Path(__file__).resolve().parent
_SOURCES = (_FOLDER / "pom.xml", *sorted((_FOLDER / "java").rglob("*.java")))
_BUILT = BUILD / "ycsb"


class YcsbError(RuntimeError):
    """YCSB cannot be built, or failed; one sentence, or what it printed last."""


def ycsb_class_path() -> str:
    """What ``java -cp`` needs; builds it first where its sources have changed.

    Raises:
        YcsbError: Java or Maven is missing, or the build failed.
    """
    for command, package in (("javac", "default-jdk-headless"), ("mvn", "maven")):
        if not shutil.which(command):
            raise YcsbError(
                f"YCSB needs the command {command}: sudo apt-get install {package}, "
                "or .ci/setup evaluation"
            )
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "ycsb.lock").open("w") as lock:
        os.fchmod(lock.fileno(), 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        stamp, wanted = _BUILT / "stamp", _digest()
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(_BUILT, ignore_errors=True)
            _build()
            stamp.write_text(wanted)
    return f"{_BUILT}/classes:{_BUILT}/lib/*"


def _digest() -> str:
    digest = hashlib.sha256()
    for source in _SOURCES:
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _build() -> None:
    command = ["mvn", "-q", "-B", "-f", str(_FOLDER / "pom.xml"), f"-Dbuilt={_BUILT}"]
    done = subprocess.run(
        [*command, "process-classes"],
        # Or it looks for options of Java in each folder above.
        env={**os.environ, "MAVEN_BASEDIR": str(_FOLDER)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise YcsbError(f"YCSB could not be built: {done.stdout.strip()[-1000:]}")
