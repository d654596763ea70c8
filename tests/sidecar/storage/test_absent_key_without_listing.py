"""S3 calls an absent key forbidden unless the caller may list the whole bucket: we look closer."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.storage.store import StoreError
from sidecar.storage.store_s3 import S3Store

KEY = "settings/alpha/modest.json"


@pytest.fixture(autouse=True)
def forbidden(answers: Any) -> None:
    answers.add_client_error("get_object", "AccessDenied", http_status_code=403)


def test_absent_if_it_may_be_listed_and_is_not_there(answers: Any) -> None:
    neighbour = {"Contents": [{"Key": KEY + ".old"}]}
    answers.add_response("list_objects_v2", neighbour, {"Bucket": "b", "Prefix": KEY})
    assert S3Store("b", "us-east-1", None).get(KEY, 9) is None


@pytest.mark.parametrize("may_be_listed", [True, False])
def test_forbidden_if_it_is_there_or_may_not_be_listed_either(
    answers: Any, may_be_listed: bool
) -> None:
    if may_be_listed:
        answers.add_response("list_objects_v2", {"Contents": [{"Key": KEY}]})
    else:
        answers.add_client_error("list_objects_v2", "AccessDenied", http_status_code=403)
    with pytest.raises(StoreError, match="AccessDenied"):
        S3Store("b", "us-east-1", None).get(KEY, 9)
