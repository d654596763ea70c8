"""A server of which somebody between changes what it says, as a stranger's own program would."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from workloads.local_server import LocalServer


@contextmanager
def altered(server: LocalServer, alter: Callable[[bytes, bytes], bytes]) -> Iterator[str]:
    """Yield the altered server's address. ``alter`` is given a question and a part of what is
    answered, and says what is passed on of that."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    how = (listening.accept()[0], server, alter)
                    Thread(target=_pass_on, args=how, daemon=True).start()

        thread = Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _pass_on(
    asking: socket.socket, server: LocalServer, alter: Callable[[bytes, bytes], bytes]
) -> None:
    question = b""
    path = server.url.removeprefix("unix://")
    with asking, socket.socket(socket.AF_UNIX) as answering, contextlib.suppress(OSError):
        answering.connect(path)

        def answer() -> None:
            with contextlib.suppress(OSError):
                while part := answering.recv(1 << 20):
                    asking.sendall(alter(question, part))

        thread = Thread(target=answer, daemon=True)
        thread.start()
        while part := asking.recv(1 << 20):
            question = part
            answering.sendall(part)
        answering.shutdown(socket.SHUT_RDWR)
        thread.join()
