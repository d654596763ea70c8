"""TLS in front of a server that has none, with certificates made for the test."""

from __future__ import annotations

import datetime
import ipaddress
import select
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

# A Unix socket, or host and port.
Target = Path | tuple[str, int]


class Authority:
    """Signs certificates into ``folder``."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._builder(self._name, self._key, 1).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.path = folder / f"{name}.pem"
        signed = certificate.sign(self._key, hashes.SHA256())
        self.path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))

    def certificate(self, name: str, address: str = "127.0.0.1", days: int = 1) -> Path:
        """PEM file with certificate and key; ``days`` below 0: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        host = x509.IPAddress(ipaddress.ip_address(address))
        builder = self._builder(subject, key, days).add_extension(
            x509.SubjectAlternativeName([host]), critical=False
        )
        signed = builder.sign(self._key, hashes.SHA256())
        path = self.folder / f"{name}.pem"
        path.touch(0o600)
        path.write_bytes(
            signed.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return path

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=3))
            .not_valid_after(now + datetime.timedelta(days=days))
        )


@contextmanager
def tls_proxy(
    target: Target, certificate: Path, clients: Path | None = None, port: int = 0
) -> Iterator[str]:
    """The ``rediss://`` address of what listens at ``target``; ``clients``: the
    authority whose certificates clients must have; ``port``: its own, 0: any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=_accept, args=(listener, context, target), daemon=True)
        thread.start()
        try:
            yield f"rediss://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accept(listener: socket.socket, context: ssl.SSLContext, target: Target) -> None:
    with suppress(OSError):
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=_serve, args=(plain, context, target), daemon=True).start()


def _serve(plain: socket.socket, context: ssl.SSLContext, target: Target) -> None:
    """Serve both directions with one thread: OpenSSL's connections are not for two at once."""
    try:
        with context.wrap_socket(plain, server_side=True) as client, _connected(target) as server:
            while True:
                waiting = [client] if client.pending() else []
                for source in waiting or select.select([client, server], [], [])[0]:
                    if not (data := source.recv(1 << 16)):
                        return
                    (server if source is client else client).sendall(data)
    except OSError as error:
        print(f"the TLS proxy hung up: {error!r}", file=sys.stderr)


def _connected(target: Target) -> socket.socket:
    if isinstance(target, tuple):
        return socket.create_connection(target)
    server = socket.socket(socket.AF_UNIX)
    server.connect(str(target))
    return server
