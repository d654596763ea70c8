"""The function's package: ``solver_lambda`` and numpy, put together by uv and without Docker."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling, aws_lambda

HERE = Path(__file__).resolve().parents[1]
SOURCE = HERE.parent / "solver_lambda"
REQUIREMENTS = HERE / "function_requirements.txt"
# manylinux2014 would silently resolve an old numpy.
LAMBDA_PLATFORM = ("--python-platform", "aarch64-manylinux_2_28", "--python-version", "3.14")
# Nothing of these is imported by the function.
NOT_NEEDED = (
    *("numpy/**/tests", "numpy/**/*.pyi", "numpy/**/*.a", "numpy/**/*.pxd", "numpy/_core/include"),
    *("numpy/distutils", "numpy/f2py", "bin", "**/__pycache__"),
)


def target_platform(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The platform that uv builds for.

    An ``AWS_ENDPOINT_URL`` means an emulator, which runs functions on the Python of this machine.
    """
    if environment.get("AWS_ENDPOINT_URL"):
        return ("--python", sys.executable)
    return LAMBDA_PLATFORM


def find_compiler(platform: tuple[str, ...]) -> str | None:
    """A Python on this machine of the version that the function runs on, or ``None``: bytecode of
    another version is ignored."""
    if "--python-version" not in platform:
        return sys.executable
    version = platform[platform.index("--python-version") + 1]
    found = subprocess.run(
        [
            *(sys.executable, "-m", "uv", "python", "find"),
            *("--no-config", "--no-project", "--no-python-downloads", version),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    return found.stdout.strip() if found.returncode == 0 else None


def bundled_code(platform: tuple[str, ...]) -> aws_lambda.Code:
    """The package as an asset, built again only when something in it has changed."""
    compiler = find_compiler(platform)
    if compiler is None:
        print(
            "The function's package has no bytecode, because there is no Python "
            f"{platform[-1]} here to compile it: cold starts take about half as long again. "
            f"`uv python install {platform[-1]}` brings one.",
            file=sys.stderr,
        )
    return aws_lambda.Code.from_asset(
        str(SOURCE),
        asset_hash=digest(SOURCE, platform, compiled=compiler is not None),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(
            # The type wants an image; the local bundler never starts it.
            image=DockerImage.from_registry("none"),
            local=_UvBundling(platform, compiler),
        ),
    )


def digest(source: Path, platform: tuple[str, ...], *, compiled: bool) -> str:
    """Return the digest of all that goes into the package of ``source``: the deployed function is
    another one only if it changes. Bytecode follows from the rest, but for whether there is any."""
    found = hashlib.sha256(repr((platform, compiled)).encode() + REQUIREMENTS.read_bytes())
    for path in sorted(source.rglob("*.py")):
        found.update(bytes(path.relative_to(source)) + b"\0" + path.read_bytes())
    return found.hexdigest()


def bundle(output: Path, platform: tuple[str, ...], compiler: str | None) -> None:
    """Fill the folder ``output``, with bytecode if there is a ``compiler`` of the right version.

    Raises:
        subprocess.CalledProcessError: uv or the compiler failed, and said why on stderr.
    """
    subprocess.run(
        [
            *(sys.executable, "-m", "uv", "pip", "install", "--no-config", "--quiet"),
            *("--only-binary", ":all:"),
            *platform,
            *("--target", str(output), "--requirement", str(REQUIREMENTS)),
        ],
        check=True,
        stdout=sys.stderr,
    )
    for pattern in NOT_NEEDED:
        for path in sorted(output.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    shutil.copytree(SOURCE, output / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
    if compiler is not None:
        subprocess.run(
            [
                *(compiler, "-I", "-m", "compileall", "-q", "-j", "0"),
                # Lambda sets the files' times anew, so that by them all bytecode would be stale.
                *("--invalidation-mode", "unchecked-hash"),
                *("-s", str(output), str(output)),
            ],
            check=True,
            stdout=sys.stderr,
        )


@jsii.implements(ILocalBundling)
class _UvBundling:
    def __init__(self, platform: tuple[str, ...], compiler: str | None) -> None:
        self._platform, self._compiler = platform, compiler

    def try_bundle(self, output_dir: str, *_options: Any, **_more: Any) -> bool:
        bundle(Path(output_dir), self._platform, self._compiler)
        return True
