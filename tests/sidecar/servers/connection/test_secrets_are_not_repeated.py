"""What a server or a service says is shown without the secret that it was sent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.base.hidden_secrets import HIDDEN, without_secrets
from sidecar.config.node import ServerConfig
from sidecar.look.server_questions import CannotBeLookedAtError, LookedServer
from sidecar.servers.connection.redis_server import RedisServer
from sidecar.servers.connection.server_errors import ServerRefusedError
from tests.sidecar.altered_server import altered
from tests.sidecar.fixtures import StartServer

PASSWORD = "hunter2-of-all-caches"


def test_a_server_that_does_not_know_auth_repeats_what_it_was_sent(
    start_server: StartServer,
) -> None:
    """As with ``rename-command AUTH ""``."""
    said = f"-ERR unknown command 'AUTH', with args beginning with: 'spreds' '{PASSWORD}' \r\n"
    with altered(start_server("12mb"), lambda *_: said.encode()) as url:
        config = replace(ServerConfig("a", url), username="spreds", password=PASSWORD)
        with pytest.raises(ServerRefusedError, match="unknown command 'AUTH'") as refused:
            RedisServer(config).read()
        with pytest.raises(CannotBeLookedAtError, match="unknown command 'AUTH'") as not_looked_at:
            LookedServer(config).begin()
    for error in (refused, not_looked_at):
        assert f"'spreds' '{HIDDEN}'" in str(error.value)
        assert PASSWORD not in str(error.value)


SIGNS = st.text("abX-7.*(\\ ", min_size=1, max_size=200)


@given(SIGNS, SIGNS, SIGNS)
def test_no_secret_is_left(before: str, secret: str, after: str) -> None:
    """Short ones are hidden where they stand alone."""
    shown = without_secrets(f"{before} '{secret}' {after}", [None, "", secret])
    if secret.strip():
        assert secret.strip() not in shown.replace(HIDDEN, "") or len("".join(secret.split())) < 8
        assert f"'{secret}'" not in shown


@given(st.text("abcX7", min_size=16, max_size=300), st.integers(16, 299), st.integers(0, 15))
def test_nor_its_beginning_nor_one_with_white_space_in_it(secret: str, cut: int, at: int) -> None:
    assert without_secrets(f"'{secret[:cut]}'", [secret]) == f"'{HIDDEN}'"
    assert without_secrets(f"'{secret[:at]} \n{secret[at:]}'", [secret]).count(HIDDEN) == 1


def test_other_words_stay() -> None:
    assert without_secrets("ERR unknown command", ["no", "comm"]) == "ERR unknown command"
    assert without_secrets("wrong pw for pw2", ["pw"]) == f"wrong {HIDDEN} for pw2"
    assert without_secrets("as it was", []) == "as it was"
