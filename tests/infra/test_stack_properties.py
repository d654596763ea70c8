"""What must hold of the template, whatever it looks like."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.configuration import Configuration, Node
from infra.plan_delivery import own_plans

CONTROLLERS = ("lambda", "fargate", "embedded")
# The library writes it for the image's registry, and AWS takes no resource there.
NO_RESOURCE_POSSIBLE = {"ecr:GetAuthorizationToken"}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def role_statements(template: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] == "AWS::IAM::Policy":
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                yield logical_id, statement
        assert "Policies" not in resource.get("Properties", {}), "a policy that no test looks at"
        assert "ManagedPolicyArns" not in resource.get("Properties", {})


@pytest.mark.parametrize("controller", CONTROLLERS)
class TestWhateverTheController:
    def test_every_statement_of_a_role_names_its_actions_and_resources(
        self, controller: str, synthesise: Callable
    ) -> None:
        statements = list(role_statements(synthesise(controller=controller).template))
        assert statements
        for where, statement in statements:
            assert statement["Effect"] == "Allow"
            actions = listed(statement["Action"])
            assert all("*" not in action for action in actions), where
            if set(actions) <= NO_RESOURCE_POSSIBLE:
                continue
            for resource in listed(statement["Resource"]):
                text = json.dumps(resource)
                assert resource != "*", (where, statement)
                # A wildcard only as the last part of a path that has at least one named part.
                assert text.count("*") <= text.count('/*"') + text.count(':*"') + text.count(
                    ":*:task/"
                ), (where, resource)

    def test_there_is_no_custom_resource(self, controller: str, synthesise: Callable) -> None:
        made = synthesise(controller=controller)
        kinds = {resource["Type"] for resource in made.template["Resources"].values()}
        assert not [kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation"))]
        assert len(made.of_type("Lambda::Function")) == (1 if controller == "lambda" else 0)

    def test_buckets_are_private_encrypted_versioned_and_kept(
        self, controller: str, synthesise: Callable
    ) -> None:
        made = synthesise(controller=controller)
        buckets = made.of_type("S3::Bucket")
        assert len(buckets) == 2
        for logical_id, bucket in buckets.items():
            assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
            assert len(bucket["PublicAccessBlockConfiguration"]) == 4
            (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
            assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
            resource = made.template["Resources"][logical_id]
            # What a failed first deployment has made goes with it, so that it can be repeated.
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
            assert resource["UpdateReplacePolicy"] == "Retain"

    def test_everything_that_has_a_policy_refuses_plain_http(
        self, controller: str, synthesise: Callable
    ) -> None:
        made = synthesise(controller=controller)
        for kind, policies, target in (
            ("S3::Bucket", "S3::BucketPolicy", "Bucket"),
            ("SQS::Queue", "SQS::QueuePolicy", "Queues"),
            ("SNS::Topic", "SNS::TopicPolicy", "Topics"),
        ):
            refusing = set()
            for policy in made.of_type(policies).values():
                for statement in policy["PolicyDocument"]["Statement"]:
                    if (
                        statement["Effect"] == "Deny"
                        and statement["Principal"] in ("*", {"AWS": "*"})
                        and statement.get("Condition") == {"Bool": {"aws:SecureTransport": "false"}}
                    ):
                        refusing |= {ref["Ref"] for ref in listed(policy[target])}
            assert refusing == set(made.of_type(kind)), kind

    def test_queues_are_encrypted(self, controller: str, synthesise: Callable) -> None:
        queues = synthesise(controller=controller).of_type("SQS::Queue")
        assert queues
        assert all(queue["SqsManagedSseEnabled"] is True for queue in queues.values())

    def test_each_dead_letter_queue_has_an_alarm_that_reaches_the_topic(
        self, controller: str, synthesise: Callable, configuration: Configuration
    ) -> None:
        made = synthesise(controller=controller)
        node_queues = {f"{configuration.name}_{node.name}" for node in configuration.nodes}
        dead = {q["QueueName"] for q in made.of_type("SQS::Queue").values()} - node_queues
        watched = {
            dimension["Value"]["Fn::GetAtt"][0]
            for alarm in made.of_type("CloudWatch::Alarm").values()
            for dimension in alarm["Dimensions"]
            if dimension["Name"] == "QueueName"
        }
        assert {made.of_type("SQS::Queue")[queue]["QueueName"] for queue in watched} == dead
        (alarms,) = [i for i, t in made.of_type("SNS::Topic").items() if "alarms" in t["TopicName"]]
        for alarm in made.of_type("CloudWatch::Alarm").values():
            assert alarm["AlarmActions"] == [{"Ref": alarms}]
        (publishes,) = [
            statement
            for policy in made.of_type("SNS::TopicPolicy").values()
            for statement in policy["PolicyDocument"]["Statement"]
            if statement.get("Sid") == "AlarmsPublish"
        ]
        assert publishes["Principal"] == {"Service": "cloudwatch.amazonaws.com"}


def test_documents_expire_after_the_configured_days_and_settings_do_not(
    synthesise: Callable,
) -> None:
    for days in (180, 7):
        for bucket in synthesise(retention_days=days).of_type("S3::Bucket").values():
            rules = {rule["Id"]: rule for rule in bucket["LifecycleConfiguration"]["Rules"]}
            (expiring,) = [rule for rule in rules.values() if "ExpirationInDays" in rule]
            assert expiring["ExpirationInDays"] == days
            assert expiring["Prefix"] in ("observations/", "plans/")
            # Versions that have expired are not kept for as long again.
            assert expiring["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
            if expiring["Prefix"] == "observations/":
                old = rules["expire-old-settings"]
                assert old["Prefix"] == "settings/"
                assert old["NoncurrentVersionExpiration"] == {"NoncurrentDays": days}


def test_logs_are_kept_as_long_as_configured(synthesise: Callable) -> None:
    for controller in ("lambda", "fargate"):
        logs = synthesise(controller=controller, log_retention_days=30).one("Logs::LogGroup")
        assert logs["RetentionInDays"] == 30


def test_the_function_is_what_the_operator_asked_for(synthesise: Callable) -> None:
    made = synthesise(reserved_concurrency=3)
    function = made.one("Lambda::Function")
    assert function["Architectures"] == ["arm64"]
    assert function["Handler"] == "solver_lambda.function.handler.handler"
    assert function["ReservedConcurrentExecutions"] == 3
    assert "ReservedConcurrentExecutions" not in synthesise().one("Lambda::Function")
    failing = made.one("Lambda::EventInvokeConfig")
    assert failing["MaximumRetryAttempts"] == 0  # a refusal stays one
    (refused,) = [
        logical_id
        for logical_id, queue in made.of_type("SQS::Queue").items()
        if queue["QueueName"] == "spreds-refused-observations"
    ]
    assert failing["DestinationConfig"]["OnFailure"]["Destination"] == {
        "Fn::GetAtt": [refused, "Arn"]
    }


def test_the_solver_is_told_the_stacks_own_buckets_and_no_more(synthesise: Callable) -> None:
    function = synthesise().one("Lambda::Function")["Environment"]["Variables"]
    task = synthesise(controller="fargate").one("ECS::TaskDefinition")
    (container,) = task["ContainerDefinitions"]
    of_task = {item["Name"]: item["Value"] for item in container["Environment"]}
    own = {
        f"SPREDS_{name.upper()}_BUCKET": bucket["BucketName"]
        for bucket in synthesise().of_type("S3::Bucket").values()
        for name in ("observations", "plans")
        if f"-{name}-" in json.dumps(bucket["BucketName"])
    }
    assert len(own) == 2
    assert of_task == own
    assert function == {**own, "SPREDS_SOLVER": "auto"}


def test_s3_tells_the_function_and_the_topic_themselves(synthesise: Callable) -> None:
    made = synthesise()
    notifications = {
        bucket["BucketName"]["Fn::Join"][1][0]: bucket["NotificationConfiguration"]
        for bucket in made.of_type("S3::Bucket").values()
    }
    assert set(notifications["spreds-observations-"]) == {"LambdaConfigurations"}
    assert set(notifications["spreds-plans-"]) == {"TopicConfigurations"}
    permission = made.one("Lambda::Permission")
    assert permission["Principal"] == "s3.amazonaws.com"
    assert {"SourceAccount", "SourceArn"} <= set(permission)


def test_who_runs_the_solver_is_watched(synthesise: Callable) -> None:
    def watched(controller: str) -> set[str]:
        alarms = synthesise(controller=controller).of_type("CloudWatch::Alarm").values()
        return {alarm["MetricName"] for alarm in alarms} - {"ApproximateNumberOfMessagesVisible"}

    lost = {"NumberOfNotificationsFailedToRedriveToDlq"}
    assert watched("embedded") == lost
    assert watched("lambda") == lost | {"Errors", "Throttles", "DestinationDeliveryFailures"}
    assert watched("fargate") == lost | {"FailedInvocations", "InvocationsFailedToBeSentToDlq"}


def test_a_node_may_have_a_function_that_runs_one_solver(synthesise: Callable) -> None:
    few, many = Node("few", solver="dirichlet"), Node("many", solver="hill_climbing")
    made = synthesise(nodes=(few, many, Node("other")))
    solvers = {
        function["FunctionName"]: function["Environment"]["Variables"]["SPREDS_SOLVER"]
        for function in made.of_type("Lambda::Function").values()
    }
    assert solvers == {
        "spreds-solver": "auto",
        "spreds-solver-dirichlet": "dirichlet",
        "spreds-solver-hill-climbing": "hill_climbing",
    }
    (told,) = [
        bucket["NotificationConfiguration"]["LambdaConfigurations"]
        for bucket in made.of_type("S3::Bucket").values()
        if "LambdaConfigurations" in bucket["NotificationConfiguration"]
    ]
    assert {
        configured["Filter"]["S3Key"]["Rules"][0]["Value"]: configured["Function"]["Fn::Join"][1][
            -1
        ]
        for configured in told
    } == {
        "observations/few/": ":function:spreds-solver-dirichlet",
        "observations/many/": ":function:spreds-solver-hill-climbing",
        "observations/other/": ":function:spreds-solver",
    }


def test_the_template_is_for_any_account_and_region(synthesise: Callable) -> None:
    manifest = json.loads((synthesise().path.parent / "manifest.json").read_text())
    assert manifest["artifacts"]["spreds"]["environment"] == "aws://unknown-account/unknown-region"


def test_the_plans_topic_signs_with_version_2(synthesise: Callable) -> None:
    topics = synthesise().of_type("SNS::Topic").values()
    assert {topic["SignatureVersion"] for topic in topics} == {"2"}


def test_fargate_runs_the_solver_on_each_observation_and_reports_failures(
    synthesise: Callable,
) -> None:
    made = synthesise(controller="fargate")
    (configured,) = [
        bucket["NotificationConfiguration"]
        for bucket in made.of_type("S3::Bucket").values()
        if "EventBridgeConfiguration" in bucket["NotificationConfiguration"]
    ]
    assert configured == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    rules = {
        rule["EventPattern"]["detail-type"][0]: rule
        for rule in made.of_type("Events::Rule").values()
    }
    (start,) = rules["Object Created"]["Targets"]
    command = json.loads(
        start["InputTransformer"]["InputTemplate"].replace("<", '"<').replace(">", '>"')
    )["containerOverrides"][0]["command"]
    paths = start["InputTransformer"]["InputPathsMap"]
    assert [paths[place.strip("<>")] for place in command] == [
        "$.detail.bucket.name",
        "$.detail.object.key",
    ]
    assert "DeadLetterConfig" in start
    failed = rules["ECS Task State Change"]["EventPattern"]["detail"]
    # A task whose image cannot be pulled has no exit code.
    assert failed["$or"] == [
        {"containers": {"exitCode": [{"anything-but": 0}]}},
        {"stopCode": [{"anything-but": "EssentialContainerExited"}]},
    ]
    task = made.one("ECS::TaskDefinition")
    assert task["RuntimePlatform"]["CpuArchitecture"] == "ARM64"
    (container,) = task["ContainerDefinitions"]
    assert container["ReadonlyRootFilesystem"] is True
    digest = container["Image"]["Fn::Sub"].rpartition(":")[2]
    (assets,) = made.path.parent.glob("*.assets.json")
    built = json.loads(assets.read_text())["dockerImages"][digest]["source"]
    assert built["platform"] == "linux/arm64"
    image = made.path.parent / f"asset.{digest}"
    packed = {str(path.relative_to(image)) for path in image.rglob("*") if path.is_file()}
    assert {
        "solver_lambda/__main__.py",
        "solver_lambda/function/handler.py",
        "infra/function_requirements.txt",
    } <= packed
    assert all(name.startswith(("solver_lambda/", "infra/")) for name in packed)
    assert "infra/stack.toml" not in packed


def test_auto_chooses_what_the_cost_model_says_is_cheapest(synthesise: Callable) -> None:
    made = synthesise(controller="auto", cycles_per_day=24)
    assert made.template["Outputs"]["Controller"]["Value"] == "lambda"
    assert made.of_type("Lambda::Function")


def test_switching_the_controller_leaves_the_nodes_as_they_are(synthesise: Callable) -> None:
    def of_nodes(controller: str) -> dict[str, Any]:
        resources = synthesise(controller=controller).template["Resources"]
        return {i: r for i, r in resources.items() if i.startswith(("Node", "PlanTopic", "Plans"))}

    assert of_nodes("lambda") == of_nodes("fargate") == of_nodes("embedded") != {}


def test_one_more_line_is_one_more_node(synthesise: Callable, configuration: Configuration) -> None:
    posted = Node("edge", ("a",), delivery="http", public_url="https://edge.example.com/plans")
    before = synthesise()
    after = synthesise(nodes=(*configuration.nodes, Node("third", ("a", "b")), posted))
    for logical_id, resource in before.template["Resources"].items():
        assert after.template["Resources"][logical_id] == resource
    subscriptions = after.of_type("SNS::Subscription").values()
    assert {s["Protocol"] for s in subscriptions} == {"sqs", "https"}
    for subscription in subscriptions:
        assert subscription["FilterPolicyScope"] == "MessageBody"
        assert "deadLetterTargetArn" in subscription["RedrivePolicy"]
    filters = [json.dumps(s["FilterPolicy"]) for s in subscriptions]
    expected = [own_plans(name) for name in ("node-1", "node-2", "third", "edge")]
    assert sorted(filters) == sorted(map(json.dumps, expected))


def names(made: Any) -> set[tuple[str, str]]:
    """Of all that has a name of its own in the template: kind and name as JSON."""
    found = set()
    for resource in made.template["Resources"].values():
        kind = resource["Type"].rpartition(":")[2]
        if f"{kind}Name" in resource["Properties"]:
            found.add((kind, json.dumps(resource["Properties"][f"{kind}Name"])))
    return found


def test_stacks_and_nodes_that_sound_alike_share_no_name(synthesise: Callable) -> None:
    one = names(synthesise(controller="embedded", name="a", nodes=(Node("b-c"),)))
    other = names(synthesise(controller="embedded", name="a-b", nodes=(Node("c"),)))
    assert {"Role", "InstanceProfile", "Queue", "Bucket"} <= {kind for kind, _ in one}
    assert not one & other
    # A queue of the node's own, and the dead letters of the stack.
    dead = synthesise(controller="embedded", name="a", nodes=(Node("undelivered-plans"),))
    queues = [queue["QueueName"] for queue in dead.of_type("SQS::Queue").values()]
    assert len(queues) == len(set(queues)) == 2


def test_a_second_region_can_have_the_same_stack(synthesise: Callable) -> None:
    """IAM's names are of the account; those of buckets, of the world."""
    shared = [n for n in names(synthesise()) if n[0] in ("Role", "InstanceProfile", "Bucket")]
    assert {kind for kind, _ in shared} == {"Role", "InstanceProfile", "Bucket"}
    assert all('{"Ref": "AWS::Region"}' in name for _, name in shared)


def test_a_node_may_confirm_before_it_is_asked_to(synthesise: Callable) -> None:
    edge = Node("edge", (), "http", "https://edge.example.com/plans")
    resources = synthesise(nodes=(edge,)).template["Resources"]
    (subscription,) = [r for r in resources.values() if r["Type"] == "AWS::SNS::Subscription"]
    (policy,) = [
        logical_id
        for logical_id, resource in resources.items()
        if "sns:ConfirmSubscription" in json.dumps(resource)
    ]
    assert policy in subscription["DependsOn"]
