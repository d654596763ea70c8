"""A Redis server of our own that loads a C library of ours first."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from workloads.local_server import LocalServer


class PreloadedServer(LocalServer):
    """A ``LocalServer`` that loads what ``source`` (C) defines in place of the C library's.

    ``variables`` are added to its environment; ``wrapper`` as for a local server.

    Raises:
        RuntimeError: the server did not come up.
        subprocess.CalledProcessError: no C compiler.
    """

    def __init__(
        self,
        source: Path,
        settings: dict[str, object],
        binary: Path,
        *,
        variables: Mapping[str, object] | None = None,
        wrapper: Sequence[str] = (),
    ) -> None:
        self._tools = Path(tempfile.mkdtemp(prefix="spreds-preload-"))
        try:
            library = self._tools / "preloaded.so"
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
            added = {"LD_PRELOAD": library, **(variables or {})}
            words = [f"{name}={value}" for name, value in added.items()]
            super().__init__(settings, binary, ["env", *words, *wrapper])
        except BaseException:
            shutil.rmtree(self._tools, ignore_errors=True)
            raise

    def stop(self) -> None:
        """End the process and remove its folders; may be called twice."""
        super().stop()
        shutil.rmtree(self._tools, ignore_errors=True)
