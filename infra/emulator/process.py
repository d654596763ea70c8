"""AWS on this machine: ministack, with SNS made faithful, on one port of localhost.

``python -m infra.emulator.process --port 4566`` runs it until it is interrupted. In a program::

    with Emulator() as emulator:
        outputs = deploy(emulator)              # infra.deploy_local
        s3 = emulator.client("s3")
        subprocess.run(..., env={**os.environ, **emulator.environment})
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import boto3

from infra.emulator.own_user import HEALTH_PATH, for_own_user, is_own

ACCOUNT = "123456789012"
REGION = "us-east-1"
DEFAULT_PORT = 4566
START_LIMIT_SECONDS = 60.0
ANSWER_SECONDS = 5.0
STOP_LIMIT_SECONDS = 1.0  # nothing in it is worth keeping
# Method, path, query, status, operation and who asked: what costs are counted by.
ACCESS_LOG_FORMAT = 'request %(m)s %(U)s "%(q)s" %(s)s "%({x-amz-target}i)s" "%(a)s"'


def client_environment(port: int) -> dict[str, str]:
    """Variables that send every AWS client, and the CDK command, to the emulator on ``port``."""
    return {
        # The address is used: another user may listen at the other one of `localhost`.
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        # The emulator takes a key of twelve digits for the account.
        "AWS_ACCESS_KEY_ID": ACCOUNT,
        "AWS_SECRET_ACCESS_KEY": "emulated",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
    }


class RunningEmulator:
    """An emulator that somebody else started and stops.

    Attributes:
        endpoint_url: for clients.
        environment: variables for programs that are to use it.

    Raises:
        RuntimeError: none answers on the port.
    """

    def __init__(self, port: int) -> None:
        self._take(port)
        if not self._is_up():
            raise RuntimeError(
                f"no emulator answers on port {port}: start one first, or give --port"
            )

    def _take(self, port: int) -> None:
        self.environment = client_environment(port)
        self.endpoint_url = self.environment["AWS_ENDPOINT_URL"]

    def _is_up(self) -> bool:
        """Whether an answer comes as only ministack gives, from a process of our user or root."""
        port = int(self.endpoint_url.rpartition(":")[2])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", HEALTH_PATH)
            ends = connection.sock.getpeername(), connection.sock.getsockname()
            return "services" in json.load(connection.getresponse()) and is_own(*ends)
        except (OSError, http.client.HTTPException, ValueError, TypeError):
            return False
        finally:
            connection.close()

    def client(self, service: str) -> Any:
        """A boto3 client of the emulated service."""
        return boto3.client(
            service,
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
        )


class Emulator(RunningEmulator):
    """Starts an emulator with nothing in it, and stops it again; a context manager.

    Attributes:
        log: what it printed, and a line for each request.

    Raises:
        RuntimeError: the port is taken, or it did not come up; the message has the end of its log.
    """

    def __init__(self, port: int | None = None) -> None:
        port = port or _free_port()
        self._take(port)
        self._check_free(port)
        self._folder = tempfile.TemporaryDirectory(prefix="spreds-emulator-")
        self.log = Path(self._folder.name, "emulator.log")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "infra.emulator.process", "--port", str(port)],
                env={**os.environ, "TMPDIR": self._folder.name},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for whoever started us, who then stops it
            )
        try:
            self._wait_until_up()
        except BaseException:
            self.stop()
            raise

    def _check_free(self, port: int) -> None:
        """Raises RuntimeError if something listens there, which we would take for our emulator."""
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        if self._is_up():
            raise RuntimeError(
                f"an emulator runs on port {port} already: give --into-running to deploy into it, "
                "and keep what is in it, or --port"
            )
        raise RuntimeError(f"port {port} is in use: stop what listens there, or give --port")

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_LIMIT_SECONDS
        while not self._is_up():
            if time.monotonic() > deadline or self._process.poll() is not None:
                text = self.log.read_text(errors="replace")
                raise RuntimeError(f"the emulator did not start: {text[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End it and the functions that it runs; may be called twice."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(STOP_LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Emulator:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(port: int) -> None:
    """Run the emulator in this process until it is told to end."""
    # It would look in /tmp, where another user may have made these folders first.
    folder = tempfile.mkdtemp(prefix="spreds-emulator-")
    os.environ.update(
        client_environment(port),
        STATE_DIR=f"{folder}/state",
        S3_DATA_DIR=f"{folder}/s3",
        BIND_HOST="127.0.0.1",
        GATEWAY_PORT=str(port),
        MINISTACK_REGION=REGION,
        MINISTACK_ACCOUNT_ID=ACCOUNT,
        IOT_MTLS_ENABLED="0",
        LAMBDA_ASYNC_RETRY_BASE_SECONDS="0.05",  # a minute at AWS
    )
    # They read the environment when they are imported.
    from hypercorn.config import Config
    from ministack import app as ministack_app

    from infra.emulator import sns

    sns.install()
    ministack_app.app = for_own_user(ministack_app.app)
    # ministack makes the configuration itself, so these are set as its defaults.
    Config.accesslog, Config.access_log_format = "-", ACCESS_LOG_FORMAT
    sys.argv = ["ministack"]
    ministack_app.main()


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.emulator.process", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    serve(parser.parse_args().port)


if __name__ == "__main__":
    _main()
