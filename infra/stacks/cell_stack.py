"""A cell: buckets, topic and solver of its nodes, and each node's delivery."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws, CfnOutput, Stack, aws_lambda, aws_s3, aws_sns, aws_sqs
from constructs import Construct, IDependable

from infra.stack_file import names
from infra.stack_file.configuration import Cell, Configuration
from infra.stacks.alarms import add_cell_alarms
from infra.stacks.document_bucket import BucketTopic, DocumentBucket, topic_notification
from infra.stacks.fleet_tables import FleetTables
from infra.stacks.plan_delivery import PlanDelivery
from infra.stacks.solver_function import SolverFunction, function_notification
from infra.stacks.solver_task import SolverTask, task_notification
from infra.stacks.stack_environment import HERE
from infra.stacks.tagged_access import only_teams_write_settings
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX, SETTINGS_PREFIX

Notification = aws_s3.CfnBucket.NotificationConfigurationProperty


class CellStack(Stack):
    """Everything in it begins with its name; a node is a queue, its policy and a subscription."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        configuration: Configuration,
        cell: Cell,
        controller: str,
        function_code: aws_lambda.Code,
    ) -> None:
        super().__init__(
            scope, construct_id, description="SPREDS: shares memory among caches, one cell"
        )
        self._configuration, self._cell = configuration, cell
        self._observations_name = HERE.bucket(cell.stack, "observations")
        self._plans_name = HERE.bucket(cell.stack, "plans")
        self._topic = BucketTopic(
            self, "PlanTopic", name=names.plans_topic(cell.stack), bucket=self._plans_name
        )
        may_notify, notification = self._solver(controller, function_code)
        self._buckets(may_notify, notification)
        for name, value in (
            ("Region", Aws.REGION),
            ("ObservationsBucket", self._observations_name),
            ("PlansBucket", self._plans_name),
            ("PlansTopicArn", self._topic.topic.topic_arn),
            ("Controller", controller),
        ):
            CfnOutput(self, name, value=value)
        if configuration.analytics:
            FleetTables(
                self,
                "Fleet",
                name=configuration.name,
                cell=cell.name,
                observations_bucket=self._observations_name,
                plans_bucket=self._plans_name,
                nodes=[node.name for node in cell.nodes],
            )
        undelivered = names.undelivered_queue(configuration.name)
        for node in cell.nodes:
            PlanDelivery(
                self,
                f"Node-{node.name}",
                node=node,
                queue_name=names.node_queue(configuration.name, node.name),
                topic=self._topic.topic,
                undelivered_arn=HERE.regional_arn("sqs", undelivered),
            )

    def _buckets(
        self, may_notify: Sequence[IDependable], notification: Notification | None
    ) -> None:
        """Make both buckets, each notifying of its documents."""
        retention_days = self._configuration.retention_days
        key_arn = self._configuration.account.documents_key_arn
        observations = DocumentBucket(
            self,
            "Observations",
            name=self._observations_name,
            documents_prefix=OBSERVATIONS_PREFIX,
            settings_prefix=SETTINGS_PREFIX,
            retention_days=retention_days,
            notification=notification,
            key_arn=key_arn,
        )
        plans = DocumentBucket(
            self,
            "Plans",
            name=self._plans_name,
            documents_prefix=PLANS_PREFIX,
            retention_days=retention_days,
            notification=topic_notification({PLANS_PREFIX: names.plans_topic(self._cell.stack)}),
            key_arn=key_arn,
        )
        # S3 refuses a notification that it may not deliver.
        observations.node.add_dependency(*may_notify)
        plans.node.add_dependency(self._topic.policy)
        only_teams_write_settings(observations.bucket)

    def _solver(
        self, controller: str, code: aws_lambda.Code
    ) -> tuple[list[IDependable], Notification | None]:
        """The solver, by who is the controller: what S3 needs before it may notify it, and how."""
        if controller == "embedded":
            return [], None
        refused = aws_sqs.Queue.from_queue_arn(
            self,
            "Refused",
            HERE.regional_arn("sqs", names.refused_queue(self._configuration.name)),
        )
        if controller == "lambda":
            return self._functions(code, refused)
        SolverTask(
            self,
            "SolverTask",
            stack=self._cell.stack,
            observations_bucket=self._observations_name,
            plans_bucket=self._plans_name,
            refused=refused,
            log_retention_days=self._configuration.log_retention_days,
            documents_key_arn=self._configuration.account.documents_key_arn,
        )
        return [], task_notification()

    def _functions(
        self, code: aws_lambda.Code, refused: aws_sqs.IQueue
    ) -> tuple[list[IDependable], Notification]:
        """Make one function for all nodes, or for each solver that a node asks for; and say by whom
        S3 has each called."""
        has_topics = self._configuration.topics == "two"
        stack, methods = self._cell.stack, self._cell.methods
        name_of = names.observations_topic if has_topics else names.solver
        may_notify: list[IDependable] = []
        for method in methods:
            function = SolverFunction(
                self,
                "Solver" if method == "auto" else f"Solver-{method}",
                name=names.solver(stack, method),
                code=code,
                solver=method,
                observations_bucket=self._observations_name,
                plans_bucket=self._plans_name,
                refused=refused,
                log_retention_days=self._configuration.log_retention_days,
                reserved_concurrency=self._configuration.reserved_concurrency,
                account=self._configuration.account,
                called_by=names.observations_topic(stack, method) if has_topics else None,
            )
            if self._configuration.cell_alarms:
                add_cell_alarms(
                    function,
                    name=names.solver(stack, method),
                    function=function.function,
                    topic=self._alarms_topic(function),
                )
            may_notify.append(
                self._topic_of(method, function, refused) if has_topics else function.permission
            )
        receivers = {
            f"{OBSERVATIONS_PREFIX}/{node.name}": name_of(stack, node.solver)
            for node in self._cell.nodes
        }
        if len(methods) == 1:
            receivers = {OBSERVATIONS_PREFIX: name_of(stack, methods[0])}
        notification = topic_notification if has_topics else function_notification
        return may_notify, notification(receivers)

    def _alarms_topic(self, scope: Construct) -> aws_sns.ITopic:
        name = names.alarms_topic(self._configuration.name)
        return aws_sns.Topic.from_topic_arn(scope, "AlarmsTopic", HERE.regional_arn("sns", name))

    def _topic_of(
        self, method: str, function: SolverFunction, refused: aws_sqs.IQueue
    ) -> IDependable:
        """A topic that calls the function for each observation; what S3 needs of it."""
        told = BucketTopic(
            self,
            "ObservationTopic" if method == "auto" else f"ObservationTopic-{method}",
            name=names.observations_topic(self._cell.stack, method),
            bucket=self._observations_name,
        )
        subscription = aws_sns.CfnSubscription(
            told,
            "Subscription",
            topic_arn=told.topic.topic_arn,
            protocol="lambda",
            endpoint=function.function.function_arn,
            redrive_policy={"deadLetterTargetArn": refused.queue_arn},
        )
        subscription.add_resource_dependency(function.permission)
        return told.policy
