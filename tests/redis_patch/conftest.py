"""Each test with ``server`` runs on every server that is built, with the patch or the module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.redis_patch.sampled_server import KINDS, SampledServer, ServerKind


@pytest.fixture(params=KINDS, ids=[kind.name for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> ServerKind:
    kind: ServerKind = request.param
    if kind.why_not:
        pytest.skip(kind.why_not)
    return kind


@pytest.fixture
def server(kind: ServerKind) -> Iterator[SampledServer]:
    with SampledServer(kind) as server:
        yield server
