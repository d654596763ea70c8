"""Makes the settings of TLS for connections that the sidecar begins."""

from __future__ import annotations

import ssl
from pathlib import Path

# Python's own, without DHE: a server chooses its prime, which may be so long that a handshake takes
# us a second.
_CIPHERS = "@SECLEVEL=2:ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"


def client_context(ca_certs: Path | str | None) -> ssl.SSLContext:
    """Return settings that believe the authorities of this file, ``None``: the system's. A server
    may not have us compute keys again. Raises OSError: it cannot be read, or holds none."""
    context = ssl.create_default_context(cafile=ca_certs)
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context
