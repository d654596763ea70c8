"""What the sidecar computes stays on one processor: the others are the servers'."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# After a product that would be divided: the library's threads stay.
_THREADS = """
import os
import sidecar.daemon
import numpy as np
matrix = np.ones((500, 500))
matrix @ matrix
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(os.cpu_count() == 1, reason="there is one processor alone")
def test_products_of_matrices_start_no_threads() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    run = [sys.executable, "-c", _THREADS]
    assert subprocess.run(run, env=environment, capture_output=True, check=True).stdout == b"1\n"
