"""Compiles this folder when the package is built, and says in one line if there is no compiler.

Setuptools loads this file by itself, without the package (``[tool.setuptools.cmdclass]``).
"""

from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]
from setuptools.errors import (  # type: ignore[import-untyped]
    CCompilerError,
    ExecError,
    PlatformError,
)


class BuildKernel(build_ext):  # type: ignore[misc]
    """Compiles the C files of ``sidecar/kernel``."""

    def build_extensions(self) -> None:
        """Raises SystemExit if it cannot be compiled."""
        try:
            super().build_extensions()
        except (OSError, CCompilerError, ExecError, PlatformError):
            raise SystemExit(
                "error: spreds needs a C compiler to be installed: install one (gcc or clang, with "
                "the headers of the C library), and then spreds again"
            ) from None
