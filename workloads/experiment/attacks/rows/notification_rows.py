"""Notifications that SNS did not send, or not like this."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from workloads.experiment.attacks.stage.attack import Rows, must
from workloads.experiment.attacks.stage.hostile_server import TOPIC, FalseSns
from workloads.experiment.attacks.stage.target import Target
from workloads.experiment.signed_messages import HOST, Message, new_key, stored
from workloads.local_server import free_port

ROWS = Rows()

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class _Receiver:
    """A sidecar to which notifications are posted."""

    def __init__(self, target: Target, port: int) -> None:
        self._target = target
        self._port = port

    def post(self, message: Message, source: str = "127.0.0.1") -> bytes:
        """Post a message and return the answer's status."""
        body = json.dumps(message).encode()
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        answer = self._target.raw(head.encode() + body, port=self._port, source=source)
        return answer.split(b" ", 2)[1]

    def problems(self) -> str:
        return "; ".join(self._target.status()["problems"])

    def takes(self, message: Message) -> None:
        must(self.post(message) == b"200", "a good message is not taken")

    def refuses(self, message: Message, code: str, what: str) -> None:
        told = self._told(code)
        status = self.post(message)
        must(status in (b"400", b"403"), f"{what}: answered with {status!r}")
        must(self._told(code) == told + 1, f"{what}: not refused as {code}")

    def _told(self, code: str) -> int:
        return self._target.log_text().count(f"notification refused: {code}: ")


@contextmanager
def _receiver(sns: FalseSns) -> Iterator[_Receiver]:
    port = free_port()
    controller = (
        f'kind = "lambda"\nobservations_bucket = "observations"\nplans_bucket = "plans"\n'
        f'topic_arn = "{TOPIC}"\nendpoint_url = "{sns.url}"\ndelivery = "http"\n'
        f'listen = "127.0.0.1:{port}"\n'
    )
    with Target(("pages",), {"controller": controller}, environment=CREDENTIALS) as target:
        yield _Receiver(target, port)


@ROWS.add(
    "notifications: certificates of others",
    "posts messages that are well signed, with certificates of other hosts, regions, names and "
    "of weak keys: each is refused",
)
def _certificates() -> None:
    with FalseSns() as sns, _receiver(sns) as receiver:
        receiver.takes(sns.message())
        for host in (
            "sns.s3.amazonaws.com",
            "sns.us-west-2.amazonaws.com",
            f"{HOST}.cn",
            f"{HOST}.evil.example",
            f"{HOST}@evil.example",
        ):
            message = sns.message(SigningCertURL=f"https://{host}{sns.path}")
            receiver.refuses(message, "certificate_url", host)
        strong, weak = new_key(), new_key(1024)
        for name in ("s3.amazonaws.com", "sns.us-west-2.amazonaws.com", "evil.example"):
            url = f"https://{HOST}{sns.add(strong, name)}"
            receiver.refuses(
                sns.message(strong, SigningCertURL=url), "certificate_name", f"for {name}"
            )
        url = f"https://{HOST}{sns.add(weak)}"
        receiver.refuses(sns.message(weak, SigningCertURL=url), "certificate", "a weak key")


@ROWS.add(
    "notifications: fields that move",
    "posts a message a second time with its subject moved into its id, where the signed text "
    "is the same: refused, and so is every line break in a field",
)
def _moved_fields() -> None:
    with FalseSns() as sns, _receiver(sns) as receiver:
        message = sns.message(Subject="Amazon S3 Notification")
        receiver.takes(message)
        moved = {**message, "MessageId": f"{message['MessageId']}\nSubject\n{message['Subject']}"}
        del moved["Subject"]
        receiver.refuses(moved, "control_character", "a subject in the id")
        receiver.refuses({**message, "UnsubscribeURL": "https://x"}, "replayed", "a replay")
        for sign in "\n\r\x00":
            receiver.refuses(
                sns.message(Subject=f"a{sign}b"), "control_character", f"a subject with {sign!r}"
            )


@ROWS.add(
    "notifications: replays and strangers",
    "posts replays, messages of another topic, about another node's plan, changed ones, of "
    "another key, and with a certificate behind a redirection: none is taken",
    held=True,
)
def _strangers() -> None:
    with FalseSns() as sns, _receiver(sns) as receiver:
        message = sns.message()
        receiver.takes(message)
        receiver.refuses(message, "replayed", "a replay")
        receiver.refuses(sns.message(TopicArn=f"{TOPIC}-2"), "topic", "another topic")
        text = stored("plans", "plans/other/000000000007.json")
        receiver.refuses(sns.message(Message=text), "key", "another node's plan")
        receiver.refuses({**sns.message(), "MessageId": "new"}, "signature", "another id")
        receiver.refuses(sns.message(new_key()), "signature", "another key")
        sns.redirects = True
        moved = sns.add(sns.key)
        status = receiver.post(sns.message(SigningCertURL=f"https://{HOST}{moved}"))
        must(status == b"503", f"a certificate behind a redirection: answered with {status!r}")


@ROWS.add(
    "notifications: certificates that are none",
    "posts messages with the paths of a hundred certificates that do not exist: a good message "
    "from another address is taken, status tells of it, and what is known stays known",
)
def _certificates_that_are_none() -> None:
    with FalseSns() as sns, _receiver(sns) as receiver:
        for number in range(100):
            url = f"https://{HOST}/SimpleNotificationService-{0xF0000000 + number:08x}.pem"
            receiver.post(sns.message(SigningCertURL=url), "127.0.0.9")
        told = receiver.problems()
        must("ask for too many certificates, the last one from 127.0.0.9" in told, told)
        receiver.takes(sns.message())
        # And what is known is not asked for again, whoever asks for more.
        for number in range(100):
            url = f"https://{HOST}/SimpleNotificationService-{0xE0000000 + number:08x}.pem"
            receiver.post(sns.message(SigningCertURL=url))
        receiver.takes(sns.message())


@ROWS.add(
    "notifications: a crowd of one address",
    "60 clients of one address post bad messages over and over: all good ones of another "
    "address are taken",
)
def _crowd() -> None:
    with FalseSns() as sns, _receiver(sns) as receiver:
        bad, over = {**sns.message(), "Signature": "AAAA"}, threading.Event()

        def crowd(_: int) -> None:
            while not over.is_set():
                with suppress(OSError, IndexError):
                    receiver.post(bad, "127.0.0.9")

        with ThreadPoolExecutor(60) as pool:
            pool.map(crowd, range(60))
            try:
                answers = [receiver.post(sns.message()) for _ in range(30)]
            finally:
                over.set()
        must(set(answers) == {b"200"}, f"{answers.count(b'200')} of 30 good messages are taken")
