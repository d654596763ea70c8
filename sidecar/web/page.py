"""Makes the page for browsers: one document of the files in ``sidecar/web/assets/``."""

from __future__ import annotations

import base64
import hashlib
import json
from http import HTTPStatus
from pathlib import Path

from sidecar.base.glossary import WORDS
from solver_lambda.http.message import Answer

FOLDER = Path(__file__).parent / "assets"
SCRIPTS = (
    "words.js",
    "drawing.js",
    "curves.js",
    "time.js",
    "servers.js",
    "banner.js",
    "decisions.js",
    "orders.js",
    "page.js",
)
_STYLE, _SCRIPT = "/* style.css */", "/* scripts */"
_GLOSSARY = "{/* glossary */}"


def load_page() -> Answer:
    """Style and scripts stand in the document. A browser runs nothing else, asks nobody but us,
    and shows us in no frame: the policy names them by their digests.

    Raises:
        OSError: a file is missing, which means that the installation is not whole.
    """
    style = (FOLDER / "style.css").read_text("utf-8")
    script = "\n".join((FOLDER / name).read_text("utf-8") for name in SCRIPTS)
    script = script.replace(_GLOSSARY, json.dumps(WORDS))
    page = (FOLDER / "page.html").read_text("utf-8")
    page = page.replace(_STYLE, style).replace(_SCRIPT, script)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    # Whoever had the port before may have left a worker in the browser that answers for us.
    headers = {"Content-Security-Policy": policy, "Clear-Site-Data": '"storage"'}
    return Answer(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8", headers)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
