"""Tells why a server could not be reached, in a sentence that names what to look at."""

from __future__ import annotations

import ssl

import redis

from sidecar.config.addresses import shown_url
from sidecar.config.node import ServerConfig
from sidecar.servers.connection.server_errors import ITS_WORDS

# X509_V_ERR of OpenSSL's x509_vfy.h, as SSLCertVerificationError.verify_code has them.
_EXPIRED = 10
_NOT_YET = 9
_HOSTNAME, _ADDRESS = 62, 64


def connection_words(error: BaseException, config: ServerConfig) -> str:
    """Say what redis-py's error means; it has what came before as its cause or its context."""
    if isinstance(error, redis.exceptions.BusyLoadingError):
        return f"{ITS_WORDS}LOADING {error}"  # an answer, of which the library takes this word
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLError):
        found = found.__cause__ or found.__context__
    if not isinstance(found, ssl.SSLError):
        # Redis waits for the end of a line where it gets the beginning of a TLS handshake.
        silent = config.tls is not None and isinstance(error, TimeoutError | redis.TimeoutError)
        hint = "; does the server speak TLS at that port, as its rediss:// url says?"
        return f"{error}{hint if silent else ''}"
    url = shown_url(config.url)
    if not isinstance(found, ssl.SSLCertVerificationError):
        reason = (found.reason or "the server hung up").replace("_", " ").lower()
        return (
            f"no TLS with {url}: {reason}; the server may not speak TLS at that port, or "
            "want a certificate (ssl_certfile)"
        )
    if found.verify_code in (_EXPIRED, _NOT_YET):
        return f"the certificate of {url} is not valid now: {found.verify_message}"
    if found.verify_code in (_HOSTNAME, _ADDRESS):
        return (
            f"the certificate of {url} is for another host: {found.verify_message}; "
            "ssl_check_hostname = false accepts it"
        )
    ca_certs = config.tls.ssl_ca_certs if config.tls else None
    by = f"ssl_ca_certs {str(ca_certs)!r}" if ca_certs else "the system's (ssl_ca_certs is not set)"
    return f"the certificate of {url} is not signed by one of {by}: {found.verify_message}"


def wrong_password(config: ServerConfig) -> str:
    """Say where the wrong password comes from."""
    where = f"{config.source}: server[{config.name}]" if config.source else "it"
    who = f"of user {config.username!r}" if config.username else "of the default user"
    if config.password_from is None:
        return f"{where} has neither password_file nor password_env, and a password {who} is needed"
    return f"{where}.{config.password_from} is not the password {who}"
