"""The solver as a Fargate task, which EventBridge starts for each observation.

For runs that a function cannot do: longer than fifteen minutes, or with more memory than it gets.
A start takes half a minute or so, against a function's second.
"""

from __future__ import annotations

from pathlib import Path

from aws_cdk import (
    Duration,
    IgnoreMode,
    RemovalPolicy,
    Stack,
    aws_ec2,
    aws_ecr_assets,
    aws_ecs,
    aws_events,
    aws_events_targets,
    aws_iam,
    aws_logs,
    aws_s3,
    aws_sqs,
)
from constructs import Construct

from infra.stack_file import names
from infra.stacks.review_exceptions import (
    NO_CONTAINER_INSIGHTS,
    NO_FLOW_LOGS,
    NO_SECRETS,
    OWN_LOG_STREAMS,
    OWN_TASKS,
    REGISTRY_LOGIN,
    accept,
)
from infra.stacks.solver_access import grant_documents, solver_environment
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX

ROOT = Path(__file__).resolve().parents[2]
TASK_CPU_UNITS = 256
TASK_MEMORY_MIB = 512


class SolverTask(Construct):
    """Runs ``python -m solver_lambda BUCKET KEY``; what does not end well goes to ``refused``."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stack: str,
        observations_bucket: str,
        plans_bucket: str,
        refused: aws_sqs.IQueue,
        log_retention_days: int,
        documents_key_arn: str | None,
    ) -> None:
        super().__init__(scope, construct_id)
        name = names.solver(stack)
        self._cluster = self._network_and_cluster(name)
        self.role = aws_iam.Role(
            self, "Role", assumed_by=aws_iam.ServicePrincipal("ecs-tasks.amazonaws.com")
        )
        grant_documents(
            self.role,
            observations_bucket=observations_bucket,
            plans_bucket=plans_bucket,
            key_arn=documents_key_arn,
        )
        self._task = self._definition(
            name,
            solver_environment(observations_bucket=observations_bucket, plans_bucket=plans_bucket),
            log_retention_days,
        )
        self._start_for_each_observation(name, observations_bucket, refused)
        self._report_failures(name, refused)

    def _network_and_cluster(self, name: str) -> aws_ecs.Cluster:
        # Public subnets without a way in cost nothing while no task runs; a NAT gateway does.
        vpc = aws_ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=0,
            restrict_default_security_group=False,  # that takes a custom resource
            subnet_configuration=[
                aws_ec2.SubnetConfiguration(name="tasks", subnet_type=aws_ec2.SubnetType.PUBLIC)
            ],
            gateway_endpoints={
                "S3": aws_ec2.GatewayVpcEndpointOptions(
                    service=aws_ec2.GatewayVpcEndpointAwsService.S3
                )
            },
        )
        accept(vpc, "VPC7", NO_FLOW_LOGS)
        cluster = aws_ecs.Cluster(self, "Cluster", cluster_name=name, vpc=vpc)
        accept(cluster, "ECS4", NO_CONTAINER_INSIGHTS)
        return cluster

    def _definition(
        self, name: str, environment: dict[str, str], log_retention_days: int
    ) -> aws_ecs.FargateTaskDefinition:
        logs = aws_logs.CfnLogGroup(
            self, "Logs", log_group_name=f"/{name}", retention_in_days=log_retention_days
        )
        logs.apply_removal_policy(RemovalPolicy.DESTROY)
        definition = aws_ecs.FargateTaskDefinition(
            self,
            "Task",
            family=name,
            cpu=TASK_CPU_UNITS,
            memory_limit_mib=TASK_MEMORY_MIB,
            task_role=self.role,
            runtime_platform=aws_ecs.RuntimePlatform(
                cpu_architecture=aws_ecs.CpuArchitecture.ARM64,
                operating_system_family=aws_ecs.OperatingSystemFamily.LINUX,
            ),
        )
        self._container = self._add_container(definition, name, environment)
        definition.node.add_dependency(logs)
        accept(definition, "ECS2", NO_SECRETS)
        execution_role = definition.execution_role
        assert execution_role is not None
        accept(execution_role, "IAM5[Resource::*]", REGISTRY_LOGIN)
        own_logs = f"arn:<AWS::Partition>:logs:<AWS::Region>:<AWS::AccountId>:log-group:/{name}:*"
        accept(execution_role, f"IAM5[Resource::{own_logs}]", OWN_LOG_STREAMS)
        return definition

    def _add_container(
        self, definition: aws_ecs.FargateTaskDefinition, name: str, environment: dict[str, str]
    ) -> aws_ecs.ContainerDefinition:
        return definition.add_container(
            "solver",
            image=aws_ecs.ContainerImage.from_asset(
                str(ROOT),
                file="infra/solver.Dockerfile",
                # Otherwise it is built for the machine that deploys.
                platform=aws_ecr_assets.Platform.LINUX_ARM64,
                # Everything but what the Dockerfile copies.
                exclude=[
                    "*",
                    "!solver_lambda/**/*.py",
                    "!infra/function_requirements.txt",
                    "!infra/solver.Dockerfile",
                ],
                ignore_mode=IgnoreMode.DOCKER,
            ),
            environment=environment,
            readonly_root_filesystem=True,
            logging=aws_ecs.LogDrivers.aws_logs(
                stream_prefix="solver",
                log_group=aws_logs.LogGroup.from_log_group_name(self, "LogsByName", f"/{name}"),
            ),
        )

    def _start_for_each_observation(self, name: str, bucket: str, refused: aws_sqs.IQueue) -> None:
        rule = aws_events.Rule(
            self,
            "Observed",
            rule_name=f"{name}-observed",
            event_pattern=aws_events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created"],
                detail={
                    "bucket": {"name": [bucket]},
                    "object": {
                        "key": [{"prefix": f"{OBSERVATIONS_PREFIX}/"}],
                        # `spreds check` puts an empty one to try whether it may.
                        "size": [{"numeric": [">", 0]}],
                    },
                },
            ),
        )
        rule.add_target(
            aws_events_targets.EcsTask(
                cluster=self._cluster,
                task_definition=self._task,
                assign_public_ip=True,
                subnet_selection=aws_ec2.SubnetSelection(subnet_type=aws_ec2.SubnetType.PUBLIC),
                container_overrides=[
                    aws_events_targets.ContainerOverride(
                        container_name=self._container.container_name,
                        command=[
                            aws_events.EventField.from_path("$.detail.bucket.name"),
                            aws_events.EventField.from_path("$.detail.object.key"),
                        ],
                    )
                ],
                dead_letter_queue=refused,
                max_event_age=Duration.hours(1),
                retry_attempts=2,
            )
        )
        cluster = Stack.of(self).resolve(self._cluster.cluster_name)["Ref"]
        own_tasks = f"arn:<AWS::Partition>:ecs:<AWS::Region>:*:task/<{cluster}>/*"
        accept(self._task, f"IAM5[Resource::{own_tasks}]", OWN_TASKS)

    def _report_failures(self, name: str, refused: aws_sqs.IQueue) -> None:
        rule = aws_events.Rule(
            self,
            "Failed",
            rule_name=f"{name}-failed",
            event_pattern=aws_events.EventPattern(
                source=["aws.ecs"],
                detail_type=["ECS Task State Change"],
                detail={
                    "clusterArn": [self._cluster.cluster_arn],
                    "lastStatus": ["STOPPED"],
                    "$or": [
                        {"containers": {"exitCode": [{"anything-but": 0}]}},
                        # An image that cannot be pulled, no capacity: then there is no exit code.
                        {"stopCode": [{"anything-but": "EssentialContainerExited"}]},
                    ],
                },
            ),
        )
        rule.add_target(aws_events_targets.SqsQueue(refused))


def task_notification() -> aws_s3.CfnBucket.NotificationConfigurationProperty:
    """S3 tells EventBridge of everything in the bucket; the rule chooses."""
    return aws_s3.CfnBucket.NotificationConfigurationProperty(
        event_bridge_configuration=aws_s3.CfnBucket.EventBridgeConfigurationProperty(
            event_bridge_enabled=True
        )
    )
