"""The solver as a function, called by S3 for each observation."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import (
    Aws,
    Duration,
    aws_iam,
    aws_lambda,
    aws_lambda_destinations,
    aws_logs,
    aws_s3,
    aws_sqs,
)
from constructs import Construct

from infra.costs.workload import FUNCTION_TIMEOUT_SECONDS, Workload
from infra.stack_file.account import Account
from infra.stacks.notifications import key_filter
from infra.stacks.review_exceptions import OWN_LOG_STREAMS, TRACES, accept, accept_wildcards
from infra.stacks.solver_access import grant_documents, solver_environment
from infra.stacks.stack_environment import HERE


class SolverFunction(Construct):
    """Reads observations, writes plans, and can touch nothing else.

    ``solver`` is the one that it runs, or ``auto``. S3 calls it, or the topic named ``called_by``.
    Without ``reserved_concurrency`` it shares what the account has: a new account may have so
    little that none can be reserved
    (https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        code: aws_lambda.Code,
        solver: str,
        observations_bucket: str,
        plans_bucket: str,
        refused: aws_sqs.IQueue,
        log_retention_days: int,
        reserved_concurrency: int | None,
        account: Account,
        called_by: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.name = name
        logs = aws_logs.CfnLogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{name}",
            retention_in_days=log_retention_days,
        )
        self.role = self._role(name, observations_bucket, plans_bucket, account.documents_key_arn)
        environment = {
            **solver_environment(
                observations_bucket=observations_bucket, plans_bucket=plans_bucket
            ),
            "SPREDS_SOLVER": solver,
        }
        self.function = self._function(
            name, code, environment, refused, reserved_concurrency, account.traces
        )
        self.function.node.add_dependency(logs)  # or Lambda makes one that is never emptied
        self.permission = aws_lambda.CfnPermission(
            self,
            "MayBeCalledBySns" if called_by else "MayBeCalledByS3",
            action="lambda:InvokeFunction",
            function_name=self.function.function_arn,
            principal="sns.amazonaws.com" if called_by else "s3.amazonaws.com",
            source_account=Aws.ACCOUNT_ID,
            source_arn=(
                HERE.regional_arn("sns", called_by)
                if called_by
                else HERE.bucket_arn(observations_bucket)
            ),
        )

    def _role(
        self, name: str, observations_bucket: str, plans_bucket: str, key_arn: str | None
    ) -> aws_iam.Role:
        role = aws_iam.Role(
            self, "Role", assumed_by=aws_iam.ServicePrincipal("lambda.amazonaws.com")
        )
        grant_documents(
            role,
            observations_bucket=observations_bucket,
            plans_bucket=plans_bucket,
            key_arn=key_arn,
        )
        write_logs = aws_iam.PolicyStatement(
            sid="WriteLogs",
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[HERE.regional_arn("logs", f"log-group:/aws/lambda/{name}:log-stream:*")],
        )
        role.add_to_policy(write_logs)
        accept_wildcards(role, write_logs, OWN_LOG_STREAMS)
        return role

    def _function(
        self,
        name: str,
        code: aws_lambda.Code,
        environment: dict[str, str],
        refused: aws_sqs.IQueue,
        reserved_concurrency: int | None,
        traces: bool,
    ) -> aws_lambda.Function:
        function = aws_lambda.Function(
            self,
            "Function",
            function_name=name,
            description="Makes an adaptation plan from an observation",
            architecture=aws_lambda.Architecture.ARM_64,
            runtime=aws_lambda.Runtime.PYTHON_3_14,
            handler="solver_lambda.function.handler.handler",
            code=code,
            role=self.role,
            environment=environment,
            # Which size is the best for the money: python -m workloads experiment memory.
            memory_size=Workload.memory_mb,
            timeout=Duration.seconds(FUNCTION_TIMEOUT_SECONDS),
            reserved_concurrent_executions=reserved_concurrency,
            # The run itself repeats requests that S3 could not answer, and an observation that it
            # refuses would be refused again. Lambda repeats events that it could not start,
            # whatever this says.
            retry_attempts=0,
            max_event_age=Duration.hours(1),
            on_failure=aws_lambda_destinations.SqsDestination(refused),
            tracing=aws_lambda.Tracing.ACTIVE if traces else None,
        )
        if traces:
            accept(self.role, "IAM5[Resource::*]", TRACES)
        return function


def function_notification(
    functions: Mapping[str, str],
) -> aws_s3.CfnBucket.NotificationConfigurationProperty:
    """S3 calls a function for each new observation: by the key's prefix, the function's name."""
    return aws_s3.CfnBucket.NotificationConfigurationProperty(
        lambda_configurations=[
            aws_s3.CfnBucket.LambdaConfigurationProperty(
                event="s3:ObjectCreated:*",
                function=HERE.regional_arn("lambda", f"function:{name}"),
                filter=key_filter(prefix),
            )
            for prefix, name in functions.items()
        ]
    )
