"""Reads TLS of a server's connection: whose certificates are believed, and our own."""

from __future__ import annotations

import errno
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sidecar.config.addresses import shown_url
from sidecar.config.fields import reads_secrets
from solver_lambda.documents.reader import Fields
from solver_lambda.secret import why_not_secret

KEYS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname")


@dataclass(frozen=True)
class TlsConfig:
    """Has settings by the names that redis-py has for them.

    Attributes:
        ssl_ca_certs: PEM file; ``None``: the system's certificates.
        ssl_certfile, ssl_keyfile: PEM files of the sidecar's own certificate, where servers want
            one; the key may be in the certificate's file.
        ssl_check_hostname: the certificate must be for the host of the URL.
    """

    ssl_ca_certs: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_check_hostname: bool = True

    def options(self) -> dict[str, Any]:
        """Return them for ``redis.Redis.from_url``."""
        paths = {key: getattr(self, key) for key in KEYS[:3]}
        return {
            **{key: None if path is None else str(path) for key, path in paths.items()},
            "ssl_check_hostname": self.ssl_check_hostname,
        }


def read_tls(fields: Fields, folder: Path, url: str) -> TlsConfig | None:
    """Read TLS' settings; ``None`` without TLS. Raises DocumentError, also where a file holds no
    certificate or key."""
    given = [key for key in KEYS if fields.has(key)]
    if not url.startswith("rediss://"):
        if given:
            shown = shown_url(url)
            raise fields.refuse(given[0], f"is for a rediss:// url, and this one is {shown!r}")
        return None
    ca_certs, certfile, keyfile = (
        folder / fields.text(key) if fields.has(key) else None for key in KEYS[:3]
    )
    if keyfile is not None and certfile is None:
        raise fields.refuse("ssl_keyfile", "is given without ssl_certfile")
    tls = TlsConfig(ca_certs, certfile, keyfile, fields.boolean("ssl_check_hostname", True))
    _check_files(fields, tls)
    return tls


def check_ca_certs(fields: Fields, path: Path) -> None:
    """Check the file of ``ssl_ca_certs``. Raises DocumentError: it holds no certificates."""
    try:
        _refuse_pipe(path)
        ssl.create_default_context().load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise fields.refuse("ssl_ca_certs", _why(path, error)) from error


def _check_files(fields: Fields, tls: TlsConfig) -> None:
    if tls.ssl_ca_certs is not None:
        check_ca_certs(fields, tls.ssl_ca_certs)
    context = ssl.create_default_context()
    if tls.ssl_certfile is None or not reads_secrets.get():
        return
    key = "ssl_certfile"
    try:
        _refuse_pipe(tls.ssl_certfile)
        tls.ssl_certfile.read_bytes()
        key = "ssl_certfile" if tls.ssl_keyfile is None else "ssl_keyfile"
        keyfile = tls.ssl_keyfile or tls.ssl_certfile
        _refuse_pipe(keyfile)
        with keyfile.open("rb") as file:
            if why := why_not_secret(file.fileno()):
                raise fields.refuse(key, f"{str(keyfile)!r} keeps no secret key: {why}")
        # Otherwise the terminal would be asked for a passphrase.
        context.load_cert_chain(tls.ssl_certfile, tls.ssl_keyfile, password="")
    except (OSError, ssl.SSLError) as error:
        raise fields.refuse(key, _why(getattr(tls, key), error)) from error


def _refuse_pipe(path: Path) -> None:
    """Refuse a pipe: it gives its text once, and each connection reads it. Raises OSError."""
    if path.is_fifo():
        raise OSError(errno.EINVAL, "it is a pipe, and must be a file")


def _why(path: Path, error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        # ssl.SSLError is an OSError whose strerror is OpenSSL's line and place.
        reason = (error.reason or "not PEM").replace("_", " ").lower()
        return f"{str(path)!r} holds no certificate, or no key, that fits: {reason}"
    return f"{str(path)!r} cannot be read: {error.strerror}"
