"""The traces of ``bench mrc``, as files that both tools read.

libCacheSim's curve program, built from its source on PyPI into ``build/``, to compare with.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sidecar.traces.formats.oracle_general import RECORD_BYTES, record_type
from sidecar.traces.trace_reader import read_trace
from workloads.arguments import ORM_BUSY, trace_file
from workloads.load import zipf_keys
from workloads.local_server import BUILD

VERSION = "0.3.5"
LIBCACHESIM = BUILD / f"libcachesim-{VERSION}"
SOURCE = LIBCACHESIM / "source"
# What its own CMakeLists.txt asks for, and the Debian package that has it.
PROGRAMS = {"cmake": "cmake", "ninja": "ninja-build", "c++": "g++", "pkg-config": "pkg-config"}
LIBRARIES = {"glib-2.0": "libglib2.0-dev", "libzstd": "libzstd-dev"}


def profiler() -> Path:
    """The program ``mrcProfiler``, built if it is not there yet (half a minute).

    Raises:
        RuntimeError: it cannot be built; the message says what is missing.
    """
    program = LIBCACHESIM / "build" / "bin" / "mrcProfiler"
    if not program.exists():
        _check_packages()
        LIBCACHESIM.mkdir(parents=True, exist_ok=True)
        _unpack()
        source = str(SOURCE / "src" / "libCacheSim")
        _run("cmake", "-S", source, "-B", str(LIBCACHESIM / "build"), "-G", "Ninja", *_OPTIONS)
        _run("ninja", "-C", str(LIBCACHESIM / "build"), "-j2", "mrcProfiler")
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
        *("--no-binary=:all:", "--disable-pip-version-check", "--dest", str(LIBCACHESIM)),
        f"libcachesim=={VERSION}",
    )
    with tarfile.open(LIBCACHESIM / f"libcachesim-{VERSION}.tar.gz") as archive:
        archive.extractall(LIBCACHESIM, filter="data")
    (LIBCACHESIM / f"libcachesim-{VERSION}").rename(SOURCE)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stdout + done.stderr)[-3000:]
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{said}")


FOLDER = BUILD / "bench-mrc"
_MILLION = 10**6
_PIECE = 10 * _MILLION
_AS_BINARY = ("oracleGeneral",)
_AS_CSV = ("csv", "-t", "time-col=1,obj-id-col=2,obj-size-col=3,obj-id-is-num=true,has-header=true")


@dataclass(frozen=True)
class BenchTrace:
    """A file, the arguments by which libCacheSim reads it, and the same with one request."""

    name: str
    path: Path
    one_request: Path
    requests: int
    arguments: tuple[str, ...]


def say(text: str) -> None:
    """Tell on stderr what is being done."""
    print(f"bench mrc: {text}", file=sys.stderr, flush=True)


def small_traces(folder: Path) -> Iterator[BenchTrace]:
    """Yield traces of at most 10 million requests, which are kept in ``build/``; real ones from
    libCacheSim's source, and orm-busy if it is in the folder. Raises TraceError, OSError."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    yield _trace("cloudPhysics, binary", data_file("cloudPhysicsIO.oracleGeneral.bin"), _AS_BINARY)
    busy = trace_file(folder, ORM_BUSY)
    if busy.exists():
        binary = FOLDER / "orm-busy.oracleGeneral.bin"
        if not binary.exists():
            _write_binary(binary, (chunk.keys for chunk in read_trace(busy)))
        yield _trace("orm-busy, binary", binary, _AS_BINARY)
    else:
        say(f"orm-busy is left out: there is no {busy}")
    twitter = FOLDER / "twitter.csv"
    if not twitter.exists():
        say("unpacking the Twitter trace of libCacheSim")
        _decompress(data_file("twitter_cluster52_10m.csv.zst"), twitter)
    binary = FOLDER / "twitter.oracleGeneral.bin"
    if not binary.exists():
        _write_binary(binary, (chunk.keys for chunk in read_trace(twitter)))
    yield _trace("Twitter, binary", binary, _AS_BINARY)
    yield _trace("Twitter, CSV", twitter, _AS_CSV)
    zipf = FOLDER / "zipf-10m.oracleGeneral.bin"
    if not zipf.exists():
        _write_binary(zipf, _zipf(10 * _MILLION))
    yield _trace("Zipf 0.99, binary", zipf, _AS_BINARY)


@contextmanager
def large_trace() -> Iterator[BenchTrace]:
    """100 million requests in 2.4 GB, removed afterwards. Raises OSError."""
    path = FOLDER / "zipf-100m.oracleGeneral.bin"
    say("generating 100 million requests, 2.4 GB")
    try:
        _write_binary(path, _zipf(100 * _MILLION))
        yield _trace("Zipf 0.99, binary", path, _AS_BINARY)
    finally:
        path.unlink(missing_ok=True)


def _zipf(count: int) -> Iterator[npt.NDArray[np.uint64]]:
    random = np.random.default_rng(1)
    for _ in range(0, count, _PIECE):
        yield zipf_keys(_MILLION, 0.99, min(_PIECE, count), random)


def _trace(name: str, path: Path, arguments: tuple[str, ...]) -> BenchTrace:
    """Make a trace: also write one request's file, and read the whole one into the page cache."""
    one = FOLDER / f"one-request-{path.name}"
    with path.open("rb") as file:
        if arguments == _AS_BINARY:
            one.write_bytes(file.read(RECORD_BYTES))
        else:
            one.write_bytes(file.readline() + file.readline())
    requests = sum(map(len, read_trace(path)))
    return BenchTrace(f"{name}, {requests / _MILLION:,.1f} M", path, one, requests, arguments)


def _write_binary(path: Path, pieces: Iterable[npt.NDArray[np.uint64]]) -> None:
    part = path.with_name(f"{path.name}.part")
    written = 0
    with part.open("wb") as file:
        for keys in pieces:
            records = np.zeros(len(keys), dtype=record_type())
            records["time"] = np.arange(written, written + len(keys)) // 10_000
            records["key"] = keys + np.uint64(1)
            records["size"] = 1
            records["next_request"] = -1
            file.write(records.tobytes())
            written += len(keys)
    part.rename(path)


def _decompress(source: Path, target: Path) -> None:
    from backports import zstd

    part = target.with_name(f"{target.name}.part")
    with zstd.open(source) as reading, part.open("wb") as writing:
        shutil.copyfileobj(reading, writing)
    part.rename(target)
