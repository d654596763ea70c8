"""A process that Ctrl-C must not reach, also where it is the first that was started."""

from __future__ import annotations

import signal
import subprocess
import sys

STARTS_ONE = """
import multiprocessing, time
from pathlib import Path
from workloads.deaf_process import start_deaf_to_ctrl_c

process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
start_deaf_to_ctrl_c(process)
print(Path(f"/proc/{process.pid}/status").read_text())
print(Path("/proc/self/status").read_text())
process.terminate()
"""


def test_the_first_process_is_deaf_and_who_starts_it_is_not() -> None:
    run = [sys.executable, "-c", STARTS_ONE]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    theirs, ours = (
        int(line.split()[1], 16) for line in said.splitlines() if line.startswith("SigBlk:")
    )
    bit = 1 << (signal.SIGINT - 1)
    assert theirs & bit
    assert not ours & bit
