"""Runs a program as systemd runs Debian's redis-server: ``SystemCallFilter=~@resources``.

What asks for another scheduling, priority or place in memory ends the whole process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

# systemd's @resources without prlimit64, which @system-service allows; x86-64's numbers.
REFUSED = {
    "ioprio_set": 251,
    "mbind": 237,
    "migrate_pages": 256,
    "move_pages": 279,
    "sched_setaffinity": 203,
    "sched_setattr": 314,
    "sched_setparam": 142,
    "sched_setscheduler": 144,
    "set_mempolicy": 238,
    "setpriority": 141,
    "setrlimit": 160,
}
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_KILL_PROCESS, _ALLOW = 0x8000_0000, 0x7FFF_0000
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def restrict() -> None:
    """Refuse system calls from now on, for this process and its children. Raises OSError."""
    parts = [_instruction(_LOAD, 0, 0, 0)]  # the number of the system call
    for number in REFUSED.values():
        parts.append(_instruction(_JUMP_IF_EQUAL, 0, 1, number))
        parts.append(_instruction(_RETURN, 0, 0, _KILL_PROCESS))
    parts.append(_instruction(_RETURN, 0, 0, _ALLOW))
    text = ctypes.create_string_buffer(b"".join(parts))
    program = _Program(len(parts), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(
        _SECCOMP, _FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "the filter of system calls is refused")


if __name__ == "__main__":
    assert platform.machine() == "x86_64"
    restrict()
    os.execvp(sys.argv[1], sys.argv[1:])
