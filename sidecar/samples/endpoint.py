"""The socket file where samples arrive.

ZeroMQ removes whatever is at the path that it binds, even a socket that another program uses, or a
file that is not a socket at all. So the path is checked first.
"""

from __future__ import annotations

import socket
from pathlib import Path

import zmq

from sidecar.base.metrics import Metrics
from sidecar.samples.receiver import SampleReceiver


def socket_path(endpoint: str) -> Path | None:
    """Of an ``ipc://`` endpoint; ``None`` for TCP and for a name that is not a file."""
    scheme, _, address = endpoint.partition("://")
    return Path(address) if scheme == "ipc" and not address.startswith("@") else None


def bind_endpoint(endpoint: str, metrics: Metrics) -> SampleReceiver:
    """The receiver, bound, with the socket's folder made if it is missing.

    Raises:
        OSError: it cannot be bound, or something else uses the path; one sentence.
    """
    path = socket_path(endpoint)
    try:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            _check_unused(path)
        return SampleReceiver(endpoint, metrics)
    except zmq.ZMQError as error:
        raise OSError(f"sampling.endpoint {endpoint}: cannot be bound: {error.strerror}") from error
    except OSError as error:
        raise OSError(
            f"sampling.endpoint {endpoint}: cannot be bound: {error.strerror or error}"
        ) from error


def _check_unused(path: Path) -> None:
    if not path.exists():
        return
    if not path.is_socket():
        raise OSError(f"{path} exists and is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return  # left behind by a process that is gone
    raise OSError(f"another program listens at {path}")
