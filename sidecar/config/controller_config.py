"""Reads ``[controller]``: who makes the plans, and how observations and plans travel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from sidecar.config.addresses import is_own, numbered, shown_url
from sidecar.config.fields import duration, lasting_secret_path, secret
from sidecar.config.tls import check_ca_certs
from solver_lambda.documents.document_key import check_key
from solver_lambda.documents.reader import Fields
from solver_lambda.secret import SecretError, read_secret

_WORD = re.compile(r"[!-~]+")
_NO_WORD = "must hold one word of printable ASCII characters, on one line"
KINDS = ("auto", "lambda", "fargate", "http", "embedded")
TOPIC_ARN = re.compile(
    r"arn:(aws|aws-cn|aws-us-gov):sns:(?P<region>[a-z0-9-]+):\d{12}:[A-Za-z0-9_-]{1,256}"
)


@dataclass(frozen=True)
class CloudConfig:
    """Says where the node's cell is.

    Attributes:
        account_id: that both buckets belong to, or ``None``: whose they are is not asked.
        endpoint_url: of an emulator, or ``None`` for AWS.
        delivery: ``sqs`` or ``http``.
        queue_url: of the node's queue, for ``sqs``.
        listen: host and port where SNS' notifications arrive, for ``http``.
    """

    observations_bucket: str
    plans_bucket: str
    region: str
    topic_arn: str
    delivery: str
    queue_url: str | None = None
    listen: tuple[str, int] | None = None
    endpoint_url: str | None = None
    account_id: str | None = None

    @property
    def emulator_url(self) -> str | None:
        """Return ``endpoint_url``, unless it is one of Amazon's own: then nothing is believed that
        an emulator may do."""
        host = urlsplit(self.endpoint_url).hostname if self.endpoint_url else None
        is_amazon = host is not None and re.search(r"(^|\.)amazonaws\.com(\.cn)?$", host)
        return None if is_amazon else self.endpoint_url


@dataclass(frozen=True)
class ServiceConfig:
    """Describes a service that answers observations with plans.

    Attributes:
        token: that it wants to see; ``None``: none.
        key: by which observations are signed and plans must be; ``None``: none.
        ssl_ca_certs: PEM file by which an https service is believed; ``None``: the system's.
        allow_plain_http: whoever answers without a key and TLS is believed.
        token_path, key_path: the files that they were read from.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    ssl_ca_certs: Path | None = None
    key: bytes | None = field(default=None, repr=False)
    allow_plain_http: bool = False
    token_path: Path | None = None
    key_path: Path | None = None

    def read_again(self) -> ServiceConfig:
        """Return it with its secrets as they are now. Raises ValueError, which names the key."""
        name, path, token, key = "token_file", self.token_path, self.token, self.key
        try:
            if path is not None:
                token = read_secret(path)
                if not _WORD.fullmatch(token):
                    raise SecretError(_NO_WORD)
            name, path = "key_file", self.key_path
            if path is not None:
                key = check_key(read_secret(path))
        except ValueError as error:
            raise ValueError(f"controller.{name} {str(path)!r} {error}") from error
        return replace(self, token=token, key=key)

    @property
    def is_open(self) -> bool:
        """Whether plans come as plain text from another machine, and nothing proves whose they
        are."""
        return self.is_plain and self.key is None and not is_own(self.url)

    @property
    def is_plain(self) -> bool:
        """Whether it is asked without TLS."""
        return self.url.startswith("http:")


@dataclass(frozen=True)
class KeptDocuments:
    """Says how many observations and plans stay in ``folder``, of each, and for how long."""

    seconds: float = 30 * 86_400.0
    number: int = 5000


@dataclass(frozen=True)
class ControllerConfig:
    """Says who makes the plans.

    Attributes:
        kind: ``lambda`` and ``fargate`` differ only in what runs in the cloud; ``embedded`` plans
            in the sidecar; ``http`` asks a service; ``auto`` is the cloud or the service where one
            is configured, with the embedded solver standing in for a plan that is late.
        folder: where ``embedded`` and ``http`` keep their documents and find teams' settings;
            ``None``: nowhere.
        plan_deadline_seconds: after it, an unanswered observation counts as overdue.
        maximum_plan_age_seconds: an older plan is refused.
        kept: of the documents in ``folder``.
    """

    kind: str = "auto"
    cloud: CloudConfig | None = None
    service: ServiceConfig | None = None
    folder: Path | None = None
    plan_deadline_seconds: float = 30.0
    maximum_plan_age_seconds: float = 3600.0
    kept: KeptDocuments = KeptDocuments()


def read_controller(fields: Fields, folder: Path) -> ControllerConfig:
    """Read ``[controller]``. Raises DocumentError."""
    kind = fields.text("kind", ControllerConfig.kind, KINDS)
    in_cloud = kind in ("lambda", "fargate")
    cloud = _read_cloud(fields) if in_cloud or fields.has("observations_bucket") else None
    service = _read_service(fields, folder) if kind == "http" or fields.has("url") else None
    if cloud is not None and service is not None:
        raise fields.refuse("url", "and observations_bucket are two places: give one of them")
    if service is not None and service.is_open and not service.allow_plain_http:
        raise fields.refuse(
            "url",
            f"is {shown_url(service.url)!r}, plain text to another machine, and whoever is on the "
            "way could make plans: take https, or give key_file, or set "
            "controller.allow_plain_http = true",
        )
    controller = ControllerConfig(
        kind=kind,
        cloud=cloud,
        service=service,
        folder=folder / fields.text("folder") if fields.has("folder") else None,
        plan_deadline_seconds=duration(
            fields, "plan_deadline", default=ControllerConfig.plan_deadline_seconds, above=0
        ),
        maximum_plan_age_seconds=duration(
            fields, "maximum_plan_age", default=ControllerConfig.maximum_plan_age_seconds, above=0
        ),
        kept=KeptDocuments(
            duration(fields, "keep_documents", default=KeptDocuments.seconds, above=0),
            fields.integer("keep_documents_number", KeptDocuments.number, low=1),
        ),
    )
    fields.done()
    return controller


def _read_cloud(fields: Fields) -> CloudConfig:
    topic = fields.text("topic_arn")
    match = TOPIC_ARN.fullmatch(topic)
    if not match:
        raise fields.refuse("topic_arn", f"must be the ARN of an SNS topic, not {topic!r}")
    delivery = fields.text("delivery", "sqs", ("sqs", "http"))
    return CloudConfig(
        observations_bucket=fields.text("observations_bucket"),
        plans_bucket=fields.text("plans_bucket"),
        region=fields.text("region", match["region"]),
        topic_arn=topic,
        delivery=delivery,
        queue_url=numbered(_url(fields, "queue_url")) if delivery == "sqs" else None,
        listen=_listen(fields) if delivery == "http" else None,
        endpoint_url=numbered(_url(fields, "endpoint_url")) if fields.has("endpoint_url") else None,
        account_id=_account(fields) if fields.has("account_id") else None,
    )


def _read_service(fields: Fields, folder: Path) -> ServiceConfig:
    url = numbered(_url(fields, "url"))
    ca_certs = folder / fields.text("ssl_ca_certs") if fields.has("ssl_ca_certs") else None
    if ca_certs is not None:
        if not url.startswith("https:"):
            raise fields.refuse(
                "ssl_ca_certs", f"is for an https url, and this one is {shown_url(url)!r}"
            )
        check_ca_certs(fields, ca_certs)
    allows = url.startswith("http:") and fields.boolean("allow_plain_http", False)
    token, key = _token(fields, folder), _key(fields, folder)
    paths = (
        lasting_secret_path(fields, "token", folder),
        lasting_secret_path(fields, "key", folder),
    )
    return ServiceConfig(url, token, ca_certs, key, allows, *paths)


def _token(fields: Fields, folder: Path) -> str | None:
    token = secret(fields, "token", folder)
    if token is not None and not _WORD.fullmatch(token):
        key = "token_file" if fields.has("token_file") else "token_env"
        raise fields.refuse(key, _NO_WORD)
    return token


def _key(fields: Fields, folder: Path) -> bytes | None:
    key = secret(fields, "key", folder)
    try:
        return None if key is None else check_key(key)
    except ValueError as error:
        raise fields.refuse(
            "key_file" if fields.has("key_file") else "key_env", str(error)
        ) from None


def _account(fields: Fields) -> str:
    account = fields.text("account_id")
    if not re.fullmatch(r"[0-9]{12}", account):
        raise fields.refuse("account_id", f"must be the 12 digits of an account, not {account!r}")
    return account


def _url(fields: Fields, key: str) -> str:
    url = fields.text(key)
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", url):
        raise fields.refuse(key, f"must be an http or https address, not {shown_url(url)!r}")
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise fields.refuse(key, f"{shown_url(url)!r} is not an address: {error}") from error
    return url


def _listen(fields: Fields) -> tuple[str, int]:
    value = fields.text("listen")
    host, _, port = value.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise fields.refuse("listen", f"must be HOST:PORT, not {value!r}")
    return host.strip("[]"), int(port)
