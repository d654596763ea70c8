"""Says in one line that there is no C compiler; all else is in pyproject.toml."""

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError, PlatformError


class BuildKernel(build_ext):
    """Compiles ``sidecar/kernel``."""

    def build_extensions(self) -> None:
        """Raises SystemExit if it cannot be compiled."""
        try:
            super().build_extensions()
        except (OSError, CCompilerError, ExecError, PlatformError):
            raise SystemExit(
                "error: spreds needs a C compiler to be installed: install one (gcc or clang, with "
                "the headers of the C library), and then spreds again"
            ) from None


setup(cmdclass={"build_ext": BuildKernel})
