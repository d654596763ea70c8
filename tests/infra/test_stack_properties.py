"""What must hold of the templates, whatever they look like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from infra.stack_file.configured_nodes import Node
from infra.stacks.plan_delivery import own_plans

CONTROLLERS = ("lambda", "fargate", "embedded")
# The library writes it for the image's registry, and AWS takes no resource there.
NO_RESOURCE_POSSIBLE = {"ecr:GetAuthorizationToken"}


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def role_statements(template: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for logical_id, resource in template["Resources"].items():
        if resource["Type"] in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            for statement in resource["Properties"]["PolicyDocument"]["Statement"]:
                yield logical_id, statement
        assert "Policies" not in resource.get("Properties", {}), "a policy that no test looks at"
        assert "ManagedPolicyArns" not in resource.get("Properties", {})


def spelt(value: Any) -> str:
    """A value of the template with the names of what CloudFormation puts in."""
    if isinstance(value, dict):
        ((function, argument),) = value.items()
        if function == "Fn::Join":
            return str(argument[0]).join(map(spelt, argument[1]))
        return f"<{argument if function == 'Ref' else '.'.join(argument)}>"
    return str(value)


@pytest.mark.parametrize("controller", CONTROLLERS)
class TestWhateverTheController:
    def test_every_statement_of_a_role_names_its_actions_and_resources(
        self, controller: str, synthesise: Callable
    ) -> None:
        made = synthesise(controller=controller)
        statements = [
            found for stack in made.stacks.values() for found in role_statements(stack.template)
        ]
        assert statements
        for where, statement in statements:
            assert statement["Effect"] == "Allow"
            actions = listed(statement["Action"])
            assert all("*" not in action for action in actions), where
            if set(actions) <= NO_RESOURCE_POSSIBLE:
                continue
            for resource in listed(statement["Resource"]):
                text = spelt(resource)
                # The library's statement for the cluster's own tasks leaves the account open.
                text = text.replace(":*:task/", ":task/")
                found = re.search(r":spreds-\*-(observations|plans)\b", text)
                rest = text.replace(found[0], "") if found else text
                assert rest.strip("*"), (where, statement)
                assert "*" not in re.sub(r"[/:]\*$", "", rest), (where, text)

    def test_there_is_no_custom_resource(self, controller: str, synthesise: Callable) -> None:
        made = synthesise(controller=controller)
        kinds = {
            resource["Type"]
            for stack in made.stacks.values()
            for resource in stack.template["Resources"].values()
        }
        assert not [kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation"))]
        assert len(made.cell.of_type("Lambda::Function")) == (1 if controller == "lambda" else 0)

    def test_buckets_are_private_encrypted_versioned_and_kept(
        self, controller: str, synthesise: Callable
    ) -> None:
        made = synthesise(controller=controller).cell
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
        for made in synthesise(controller=controller).stacks.values():
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
                            and statement.get("Condition")
                            == {"Bool": {"aws:SecureTransport": "false"}}
                        ):
                            refusing |= {ref["Ref"] for ref in listed(policy[target])}
                assert refusing == set(made.of_type(kind)), kind

    def test_queues_are_encrypted(self, controller: str, synthesise: Callable) -> None:
        made = synthesise(controller=controller)
        for stack in made.stacks.values():
            queues = stack.of_type("SQS::Queue")
            assert queues
            assert all(queue["SqsManagedSseEnabled"] is True for queue in queues.values())

    def test_each_dead_letter_queue_has_an_alarm_that_reaches_the_topic(
        self, controller: str, synthesise: Callable
    ) -> None:
        made = synthesise(controller=controller)
        shared = made.shared
        dead = set(shared.of_type("SQS::Queue"))
        watched = [
            dimension["Value"]["Fn::GetAtt"][0]
            for alarm in shared.of_type("CloudWatch::Alarm").values()
            for dimension in alarm["Dimensions"]
            if dimension["Name"] == "QueueName"
        ]
        assert sorted(watched) == sorted(dead)
        (alarms,) = shared.of_type("SNS::Topic")
        for alarm in shared.of_type("CloudWatch::Alarm").values():
            assert alarm["AlarmActions"] == [{"Ref": alarms}]
        (publishes,) = [
            statement
            for policy in shared.of_type("SNS::TopicPolicy").values()
            for statement in policy["PolicyDocument"]["Statement"]
            if statement.get("Sid") == "AlarmsPublish"
        ]
        assert publishes["Principal"] == {"Service": "cloudwatch.amazonaws.com"}

    def test_alarms_and_dead_letters_are_shared(
        self, controller: str, synthesise: Callable
    ) -> None:
        """An alarm costs more than a node: cells have none."""
        made = synthesise(controller=controller)
        assert not made.cell.of_type("CloudWatch::Alarm")
        named = {queue["QueueName"] for queue in made.shared.of_type("SQS::Queue").values()}
        assert named == {
            "spreds-undelivered-plans",
            *(["spreds-refused-observations"] if controller != "embedded" else []),
        }


def test_documents_expire_after_the_configured_days_and_settings_do_not(
    synthesise: Callable,
) -> None:
    for days in (180, 7):
        for bucket in synthesise(retention_days=days).cell.of_type("S3::Bucket").values():
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
        logs = synthesise(controller=controller, log_retention_days=30).cell.one("Logs::LogGroup")
        assert logs["RetentionInDays"] == 30


def test_the_function_is_what_the_operator_asked_for(synthesise: Callable) -> None:
    made = synthesise(reserved_concurrency=3).cell
    function = made.one("Lambda::Function")
    assert function["Architectures"] == ["arm64"]
    assert function["Handler"] == "solver_lambda.function.handler.handler"
    assert function["ReservedConcurrentExecutions"] == 3
    assert "ReservedConcurrentExecutions" not in synthesise().cell.one("Lambda::Function")
    failing = made.one("Lambda::EventInvokeConfig")
    assert failing["MaximumRetryAttempts"] == 0  # a refusal stays one
    assert spelt(failing["DestinationConfig"]["OnFailure"]["Destination"]) == (
        "arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:spreds-refused-observations"
    )


def test_the_solver_is_told_the_cells_own_buckets_and_no_more(synthesise: Callable) -> None:
    function = synthesise().cell.one("Lambda::Function")["Environment"]["Variables"]
    task = synthesise(controller="fargate").cell.one("ECS::TaskDefinition")
    (container,) = task["ContainerDefinitions"]
    of_task = {item["Name"]: item["Value"] for item in container["Environment"]}
    own = {
        f"SPREDS_{name.upper()}_BUCKET": bucket["BucketName"]
        for bucket in synthesise().cell.of_type("S3::Bucket").values()
        for name in ("observations", "plans")
        if f"-{name}-" in json.dumps(bucket["BucketName"])
    }
    assert len(own) == 2
    own["SPREDS_ACCOUNT_ID"] = {"Ref": "AWS::AccountId"}
    assert of_task == own
    assert function == {**own, "SPREDS_SOLVER": "auto"}


def test_s3_tells_the_function_and_the_topic_themselves(synthesise: Callable) -> None:
    made = synthesise().cell
    notifications = {
        bucket["BucketName"]["Fn::Join"][1][0]: bucket["NotificationConfiguration"]
        for bucket in made.of_type("S3::Bucket").values()
    }
    assert set(notifications["spreds-main-observations-"]) == {"LambdaConfigurations"}
    assert set(notifications["spreds-main-plans-"]) == {"TopicConfigurations"}
    permission = made.one("Lambda::Permission")
    assert permission["Principal"] == "s3.amazonaws.com"
    assert {"SourceAccount", "SourceArn"} <= set(permission)


def test_a_node_may_have_a_function_that_runs_one_solver(synthesise: Callable) -> None:
    few, many = Node("few", solver="dirichlet"), Node("many", solver="hill_climbing")
    made = synthesise(nodes=(few, many, Node("other"))).cell
    solvers = {
        function["FunctionName"]: function["Environment"]["Variables"]["SPREDS_SOLVER"]
        for function in made.of_type("Lambda::Function").values()
    }
    assert solvers == {
        "spreds-main-solver": "auto",
        "spreds-main-solver-dirichlet": "dirichlet",
        "spreds-main-solver-hill-climbing": "hill_climbing",
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
        "observations/few/": ":function:spreds-main-solver-dirichlet",
        "observations/many/": ":function:spreds-main-solver-hill-climbing",
        "observations/other/": ":function:spreds-main-solver",
    }


def test_the_templates_are_for_any_account_and_region(synthesise: Callable) -> None:
    made = synthesise()
    artifacts = json.loads((made.folder / "manifest.json").read_text())["artifacts"]
    for name in made.stacks:
        assert artifacts[name]["environment"] == "aws://unknown-account/unknown-region"


def test_topics_sign_with_version_2(synthesise: Callable) -> None:
    for stack in synthesise().stacks.values():
        assert {t["SignatureVersion"] for t in stack.of_type("SNS::Topic").values()} == {"2"}


def test_fargate_runs_the_solver_on_each_observation_and_reports_failures(
    synthesise: Callable,
) -> None:
    made = synthesise(controller="fargate").cell
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
    assets = made.path.with_name("spreds-main.assets.json")
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
    made = synthesise(controller="auto", cycles_per_day=24).cell
    assert made.template["Outputs"]["Controller"]["Value"] == "lambda"
    assert made.of_type("Lambda::Function")


def test_switching_the_controller_leaves_the_nodes_as_they_are(synthesise: Callable) -> None:
    def of_nodes(controller: str) -> dict[str, Any]:
        resources = synthesise(controller=controller).cell.template["Resources"]
        return {i: r for i, r in resources.items() if i.startswith(("Node", "PlanTopic", "Plans"))}

    assert of_nodes("lambda") == of_nodes("fargate") == of_nodes("embedded") != {}


def test_each_node_hears_of_its_own_plans_only(synthesise: Callable) -> None:
    edge = Node("edge", delivery="http", public_url="https://edge.example.com/plans")
    subscriptions = synthesise(nodes=(edge, Node("third"))).cell.of_type("SNS::Subscription")
    assert {s["Protocol"] for s in subscriptions.values()} == {"sqs", "https"}
    for subscription in subscriptions.values():
        assert subscription["FilterPolicyScope"] == "MessageBody"
        assert spelt(subscription["RedrivePolicy"]["deadLetterTargetArn"]).endswith(
            ":spreds-undelivered-plans"
        )
    filters = [json.dumps(s["FilterPolicy"]) for s in subscriptions.values()]
    assert sorted(filters) == sorted(json.dumps(own_plans(name)) for name in ("edge", "third"))


def names(made: Any) -> set[tuple[str, str]]:
    """Return kind and name of all that has a name of its own in the templates."""
    found = set()
    for stack in made.stacks.values():
        for resource in stack.template["Resources"].values():
            kind = resource["Type"].rpartition(":")[2]
            for key in (f"{kind}Name", "ManagedPolicyName"):
                if key in resource["Properties"]:
                    found.add((kind, spelt(resource["Properties"][key])))
    return found


def test_cells_and_nodes_that_sound_alike_share_no_name(synthesise: Callable) -> None:
    nodes = (Node("b", cell="c"), Node("c-b", cell="c-b"), Node("undelivered-plans", cell="b"))
    made = synthesise(controller="embedded", nodes=nodes)
    assert {"ManagedPolicy", "Queue", "Bucket", "Topic"} <= {kind for kind, _ in names(made)}
    of_stacks = [names(replace(made, stacks={name: stack})) for name, stack in made.stacks.items()]
    assert sum(map(len, of_stacks)) == len(set().union(*of_stacks)) == len(names(made))


def test_a_second_region_can_have_the_same_stacks(synthesise: Callable) -> None:
    """IAM's names are of the account; those of buckets, of the world."""
    made = names(synthesise())
    shared = [n for n in made if n[0] in ("Role", "ManagedPolicy", "Bucket")]
    assert {kind for kind, _ in shared} == {"ManagedPolicy", "Bucket"}
    assert all(name.endswith("-<AWS::Region>") for _, name in shared)
