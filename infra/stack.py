"""The whole stack: observations in, plans out, one line of configuration for each node."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Aws, CfnOutput, Stack, aws_lambda, aws_s3, aws_sqs
from constructs import Construct, IDependable

from infra.chosen_controller import chosen_controller
from infra.configuration import Configuration, Node
from infra.dead_letters import ALARM_PERIOD, AlarmTopic, DeadLetters, raise_alarm
from infra.document_bucket import DocumentBucket
from infra.naming import bucket_name
from infra.node_access import NodeAccess, TeamAccess, only_teams_write_settings
from infra.node_names import queue_name, role_name
from infra.outputs import output_name
from infra.plan_delivery import PlanDelivery, may_send
from infra.plan_topic import PlanTopic, topic_notification
from infra.review_exceptions import IS_A_DEAD_LETTER_QUEUE, accept
from infra.solver_function import SolverFunction, function_notification
from infra.solver_task import SolverTask, task_notification
from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX, SETTINGS_PREFIX

Notification = aws_s3.CfnBucket.NotificationConfigurationProperty


class SpredsStack(Stack):
    """Buckets, solver, topic, and for each node its delivery and roles."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        configuration: Configuration,
        function_code: aws_lambda.Code,
    ) -> None:
        super().__init__(scope, construct_id, description="SPREDS: shares memory among caches")
        name = configuration.name
        self._configuration = configuration
        self._alarms = AlarmTopic(self, "Alarms", name=f"{name}-alarms").topic
        self._observations_name = bucket_name(name, "observations")
        self._plans_name = bucket_name(name, "plans")

        self._plans_topic = PlanTopic(
            self, "PlanTopic", name=f"{name}-plans", plans_bucket=self._plans_name
        )
        controller = chosen_controller(configuration)
        may_notify, notification = self._solver(controller, f"{name}-solver", function_code)
        observations = self._buckets(may_notify, notification)
        self._undelivered = self._undelivered_plans()
        team_path = f"/{name}/teams/"
        only_teams_write_settings(
            observations.bucket, [f"arn:aws:iam::{Aws.ACCOUNT_ID}:role{team_path}*"]
        )
        self._output("Region", Aws.REGION)
        self._output("ObservationsBucket", self._observations_name)
        self._output("PlansBucket", self._plans_name)
        self._output("PlansTopicArn", self._plans_topic.topic.topic_arn)
        self._output("Controller", controller)
        self._output("AlarmsTopicArn", self._alarms.topic_arn)
        for node in configuration.nodes:
            self._add_node(node, team_path)

    def _buckets(
        self, may_notify: Sequence[IDependable], notification: Notification | None
    ) -> DocumentBucket:
        """Both buckets, each notifying of its documents; returns the one for observations."""
        name, retention_days = self._configuration.name, self._configuration.retention_days
        observations = DocumentBucket(
            self,
            "Observations",
            name=self._observations_name,
            documents_prefix=OBSERVATIONS_PREFIX,
            settings_prefix=SETTINGS_PREFIX,
            retention_days=retention_days,
            notification=notification,
        )
        plans = DocumentBucket(
            self,
            "Plans",
            name=self._plans_name,
            documents_prefix=PLANS_PREFIX,
            retention_days=retention_days,
            notification=topic_notification(f"{name}-plans"),
        )
        # S3 refuses a notification that it may not deliver.
        observations.node.add_dependency(*may_notify)
        plans.node.add_dependency(self._plans_topic.policy)
        return observations

    def _undelivered_plans(self) -> aws_sqs.Queue:
        """Where notifications go that no node took, with alarms on them and on lost ones."""
        topic = self._plans_topic.topic
        queue = self._dead_letters(
            "Undelivered", "undelivered-plans", "A node was not told of a plan, or refused to hear"
        )
        queue.add_to_resource_policy(may_send(queue, topic))
        accept(queue, "SQS3", IS_A_DEAD_LETTER_QUEUE)
        raise_alarm(
            self,
            "LostNotifications",
            name=f"{self._configuration.name}-lost-notifications",
            meaning="A node was not told of a plan, and that could not be kept either",
            metric=topic.metric(
                "NumberOfNotificationsFailedToRedriveToDlq", period=ALARM_PERIOD, statistic="Sum"
            ),
            topic=self._alarms,
        )
        return queue

    def _solver(
        self, controller: str, name: str, code: aws_lambda.Code
    ) -> tuple[list[IDependable], Notification | None]:
        """The solver, by who is the controller: what S3 needs before it may notify it, and how."""
        if controller == "embedded":
            return [], None
        refused = self._dead_letters(
            "Refused", "refused-observations", "The solver gave up on an observation"
        )
        accept(refused, "SQS3", IS_A_DEAD_LETTER_QUEUE)
        if controller == "lambda":
            return self._functions(name, code, refused)
        SolverTask(
            self,
            "SolverTask",
            name=name,
            observations_bucket=self._observations_name,
            plans_bucket=self._plans_name,
            refused=refused,
            log_retention_days=self._configuration.log_retention_days,
            alarm_topic=self._alarms,
        )
        return [], task_notification()

    def _functions(
        self, name: str, code: aws_lambda.Code, refused: aws_sqs.IQueue
    ) -> tuple[list[IDependable], Notification]:
        """One function for all nodes, or for each solver that a node asks for."""
        nodes = self._configuration.nodes
        names = {
            solver: name if solver == "auto" else f"{name}-{solver.replace('_', '-')}"
            for solver in sorted({node.solver for node in nodes})
        }
        functions = [
            SolverFunction(
                self,
                "Solver" if solver == "auto" else f"Solver-{solver}",
                name=function_name,
                code=code,
                solver=solver,
                observations_bucket=self._observations_name,
                plans_bucket=self._plans_name,
                refused=refused,
                log_retention_days=self._configuration.log_retention_days,
                reserved_concurrency=self._configuration.reserved_concurrency,
                alarm_topic=self._alarms,
            )
            for solver, function_name in names.items()
        ]
        by_prefix = {f"{OBSERVATIONS_PREFIX}/{node.name}": names[node.solver] for node in nodes}
        if names.keys() == {"auto"}:
            by_prefix = {OBSERVATIONS_PREFIX: name}
        return [function.permission for function in functions], function_notification(by_prefix)

    def _dead_letters(self, construct_id: str, name: str, meaning: str) -> aws_sqs.Queue:
        return DeadLetters(
            self,
            construct_id,
            name=f"{self._configuration.name}-{name}",
            meaning=meaning,
            alarm_topic=self._alarms,
        ).queue

    def _add_node(self, node: Node, team_path: str) -> None:
        scope = Construct(self, f"Node-{node.name}")
        stack = self._configuration.name
        delivery = PlanDelivery(
            scope,
            "Delivery",
            node=node,
            name=queue_name(stack, node.name),
            topic=self._plans_topic.topic,
            undelivered=self._undelivered,
        )
        queue = delivery.queue
        access = NodeAccess(
            scope,
            "Access",
            node=node,
            role_name=role_name(stack, node.name, Aws.REGION),
            observations_bucket=self._observations_name,
            plans_bucket=self._plans_name,
            topic_arn=self._plans_topic.topic.topic_arn,
            queue=queue,
        )
        self._output(output_name(node.name, "RoleArn"), access.role.role_arn)
        if queue is None:
            # SNS asks at once for a confirmation, and only a few times.
            delivery.subscription.node.add_dependency(access)
            self._output(output_name(node.name, "PublicUrl"), node.public_url)
        else:
            self._output(output_name(node.name, "QueueUrl"), queue.queue_url)
        for server in node.servers:
            team = TeamAccess(
                scope,
                f"Team-{server}",
                node=node.name,
                server=server,
                role_path=team_path,
                observations_bucket=self._observations_name,
            )
            self._output(output_name(node.name, "TeamRoleArn", server), team.role.role_arn)

    def _output(self, name: str, value: str) -> None:
        CfnOutput(self, name, value=value)
