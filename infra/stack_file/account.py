"""``[account]`` of the installation's file: what an organisation demands of all that is deployed
into its accounts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from infra.stack_file.names import NODE_TAG, SERVER_TAG, Place
from solver_lambda.documents.reader import Fields

# https://docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html
MOST_TAGS = 40  # of AWS' fifty: the rest is for the organisation's own and for CloudFormation's
TAG_KEY = re.compile(r"(?!aws:)[\w .:/=+@-]{1,128}")
TAG_VALUE = re.compile(r"[\w .:/=+@-]{0,256}")
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
POLICY_NAME = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)
POLICY_ARN = re.compile(r"arn:[a-z-]+:iam::(\d{12}|aws):policy/[\w+=,.@/-]{1,512}", re.ASCII)
# An alias would move the rights with it: IAM takes keys only.
KEY_ARN = re.compile(r"arn:[a-z-]+:kms:[a-z0-9-]+:\d{12}:key/[a-z0-9-]{1,64}")


@dataclass(frozen=True)
class Account:
    """What holds for everything in the installation.

    Attributes:
        tags: key and value of each.
        permissions_boundary: name or ARN of a managed policy, the boundary of every role; ``None``:
            there is none.
        documents_key_arn: of the KMS key by which S3 encrypts documents; ``None``: by S3's own.
        traces: whether functions send traces to X-Ray.
    """

    tags: tuple[tuple[str, str], ...] = ()
    permissions_boundary: str | None = None
    documents_key_arn: str | None = None
    traces: bool = False

    def boundary_arn(self, place: Place) -> str | None:
        """Return the ARN of the boundary in ``place``."""
        named = self.permissions_boundary
        if named is None or named.startswith("arn:"):
            return named
        return place.iam_arn(f"policy/{named}")


def read_account(table: Fields) -> Account:
    """Check the table. Raises DocumentError."""
    boundary = table.text("permissions_boundary") if table.has("permissions_boundary") else None
    pattern = POLICY_ARN if boundary and boundary.startswith("arn:") else POLICY_NAME
    if boundary and not pattern.fullmatch(boundary):
        raise table.refuse(
            "permissions_boundary",
            f"must be the name or the ARN of a managed policy, not {boundary!r}",
        )
    key = table.text("documents_key") if table.has("documents_key") else None
    if key and not KEY_ARN.fullmatch(key):
        raise table.refuse(
            "documents_key",
            f"must be the ARN of a key in KMS, arn:PARTITION:kms:REGION:ACCOUNT:key/ID, not "
            f"{key!r}",
        )
    account = Account(_tags(table.table("tags", {})), boundary, key, table.boolean("traces", False))
    table.done()
    return account


def _tags(table: Fields) -> tuple[tuple[str, str], ...]:
    keys = table.names()
    if len(keys) > MOST_TAGS:
        raise table.refuse(keys[MOST_TAGS], f"is one of {len(keys)} tags, and {MOST_TAGS} may be")
    for key in keys:
        if key in (NODE_TAG, SERVER_TAG):
            raise table.refuse(key, "gives a role its rights, so nothing else may carry it")
        if not TAG_KEY.fullmatch(key):
            raise table.refuse(key, f"is no tag: it must match {TAG_KEY.pattern}")
        if not TAG_VALUE.fullmatch(table.text(key)):
            raise table.refuse(key, f"must match {TAG_VALUE.pattern}, not {table.given(key)}")
    return tuple((key, table.text(key)) for key in keys)
