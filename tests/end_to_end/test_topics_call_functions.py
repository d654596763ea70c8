"""`topics = "two"`: as in the thesis, S3 tells a topic, and that calls one solver's function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.deploy_local import deploy
from solver_lambda.documents.keys import observation_key, plan_key
from solver_lambda.documents.plan import AdaptationPlan
from tests.end_to_end.test_solver_as_a_task import observation
from workloads.local_node import wait_until

SOLVERS = {"few": "dirichlet", "many": "hill_climbing"}


def test_each_function_is_called_by_its_own_topic(deployed: Any, tmp_path: Path) -> None:
    stack = tmp_path / "thesis.toml"
    lines = [f'{node} = {{ solver = "{solver}" }}' for node, solver in SOLVERS.items()]
    stack.write_text("\n".join(['name = "thesis"', 'topics = "two"', "[nodes]", *lines, ""]))
    outputs = deploy(deployed.emulator, stack)["thesis-main"]
    s3 = deployed.emulator.client("s3")
    for node, solver in SOLVERS.items():
        asked = observation(node)
        s3.put_object(
            Bucket=outputs["ObservationsBucket"],
            Key=observation_key(node, asked.cycle),
            Body=asked.dumps(),
        )
        key = plan_key(node, asked.cycle)

        def is_there(key: str = key) -> bool:
            return "Contents" in s3.list_objects_v2(Bucket=outputs["PlansBucket"], Prefix=key)

        wait_until(is_there, lambda node=node: f"no plan for {node}")
        body = s3.get_object(Bucket=outputs["PlansBucket"], Key=key)["Body"].read()
        assert AdaptationPlan.loads(body, key).method == solver
