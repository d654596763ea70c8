"""The place that a stack is deployed to: CloudFormation puts it in, so a template fits anywhere."""

from __future__ import annotations

from aws_cdk import Aws

from infra.stack_file.names import Place

HERE = Place(Aws.ACCOUNT_ID, Aws.REGION, Aws.PARTITION, Aws.URL_SUFFIX)
