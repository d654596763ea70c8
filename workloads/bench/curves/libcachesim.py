"""libCacheSim's curve program, built from its source on PyPI into ``build/``, to compare with."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from workloads.local_server import BUILD

VERSION = "0.3.5"
FOLDER = BUILD / f"libcachesim-{VERSION}"
SOURCE = FOLDER / "source"
# What its own CMakeLists.txt asks for, and the Debian package that has it.
PROGRAMS = {"cmake": "cmake", "ninja": "ninja-build", "c++": "g++", "pkg-config": "pkg-config"}
LIBRARIES = {"glib-2.0": "libglib2.0-dev", "libzstd": "libzstd-dev"}


def profiler() -> Path:
    """The program ``mrcProfiler``, built if it is not there yet (half a minute).

    Raises:
        RuntimeError: it cannot be built; the message says what is missing.
    """
    program = FOLDER / "build" / "bin" / "mrcProfiler"
    if not program.exists():
        _check_packages()
        FOLDER.mkdir(parents=True, exist_ok=True)
        _unpack()
        source = str(SOURCE / "src" / "libCacheSim")
        _run("cmake", "-S", source, "-B", str(FOLDER / "build"), "-G", "Ninja", *_OPTIONS)
        _run("ninja", "-C", str(FOLDER / "build"), "-j2", "mrcProfiler")
    return program


_OPTIONS = ("-DENABLE_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Release")


def data_file(name: str) -> Path:
    """A file of its example traces (Twitter's are CC BY 4.0: Yang, Yue and Rashmi, OSDI'20)."""
    return SOURCE / "src" / "libCacheSim" / "data" / name


def _check_packages() -> None:
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if "pkg-config" not in missing:
        missing += [
            package
            for library, package in LIBRARIES.items()
            if subprocess.run(["pkg-config", "--exists", library]).returncode
        ]
    if missing:
        raise RuntimeError(
            f"libCacheSim cannot be built, these Debian packages are missing: {' '.join(missing)}; "
            f"install them with: sudo apt-get install {' '.join(missing)}"
        )


def _unpack() -> None:
    if SOURCE.exists():
        return
    _run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
        *("--no-binary=:all:", "--disable-pip-version-check", "--dest", str(FOLDER)),
        f"libcachesim=={VERSION}",
    )
    with tarfile.open(FOLDER / f"libcachesim-{VERSION}.tar.gz") as archive:
        archive.extractall(FOLDER, filter="data")
    (FOLDER / f"libcachesim-{VERSION}").rename(SOURCE)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stdout + done.stderr)[-3000:]
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{said}")
