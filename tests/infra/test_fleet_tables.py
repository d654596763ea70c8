"""The tables of AWS Glue describe what lies in the buckets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack

from infra.stacks.fleet_tables import FleetDatabase, FleetTables
from solver_lambda.documents.keys import observation_key, plan_key
from tests.docs.documents import schema_of


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what the template says of each, by its name."""
    folder = tmp_path_factory.mktemp("cdk.out")
    app = App(outdir=str(folder), analytics_reporting=False)
    stack = Stack(app, "cell")
    FleetDatabase(stack, "Fleet", name="mycaches")
    FleetTables(
        stack,
        "Tables",
        name="mycaches",
        cell="a-1",
        observations_bucket="mycaches-a-1-observations-1-eu-central-1",
        plans_bucket="mycaches-a-1-plans-1-eu-central-1",
        nodes=["node-2", "node-1"],
    )
    app.synth()
    resources = json.loads(Path(folder, "cell.template.json").read_text())["Resources"]
    (database,) = (r for r in resources.values() if r["Type"] == "AWS::Glue::Database")
    assert database["Properties"]["DatabaseInput"]["Name"] == "mycaches"
    found = [r["Properties"] for r in resources.values() if r["Type"] == "AWS::Glue::Table"]
    assert {table["DatabaseName"] for table in found} == {"mycaches"}
    return {table["TableInput"]["Name"]: table["TableInput"] for table in found}


@pytest.mark.parametrize(
    ("name", "document", "key"),
    [
        ("plans_a_1", "plan", plan_key("node-1", 7)),
        ("observations_a_1", "observation", observation_key("node-1", 7)),
    ],
)
def test_a_table_finds_the_documents_of_each_node(tables, name, document, key) -> None:
    table = tables[name]
    bucket = f"s3://mycaches-a-1-{document}s-1-eu-central-1"
    assert table["PartitionKeys"] == [{"Name": "node", "Type": "string"}]
    parameters = table["Parameters"]
    assert parameters["projection.enabled"] == "true"
    assert parameters["projection.node.type"] == "enum"
    assert parameters["projection.node.values"] == "node-1,node-2"
    prefix = parameters["storage.location.template"].replace("${node}", "node-1")
    assert f"{bucket}/{key}".startswith(prefix)
    assert prefix.startswith(table["StorageDescriptor"]["Location"])


@pytest.mark.parametrize(
    ("name", "document", "left_out"),
    [("plans_a_1", "plan", set()), ("observations_a_1", "observation", {"planning"})],
)
def test_a_table_has_the_columns_of_the_schema(tables, name, document, left_out) -> None:
    schema = schema_of(document)
    columns = {c["Name"]: c["Type"] for c in tables[name]["StorageDescriptor"]["Columns"]}
    assert columns.keys() == schema.properties.keys() - {"node"} - left_out
    hive = {"integer": {"int", "bigint"}, "number": {"double"}, "boolean": {"boolean"}}
    for column, kind in columns.items():
        found = schema.properties[column]
        of_a_constant = {"integer" if found.table.get("const") == 1 else "string"}
        (plain,) = (found.types or of_a_constant) - {"null"}
        if plain != "array":
            assert kind in hive.get(plain, {"string"}), column
            continue
        assert found.items is not None
        if "number" in found.items.types:
            assert kind == "array<double>", column
            continue
        # A curve's own commas and colons are within its angles.
        inner = kind.removeprefix("array<struct<").removesuffix(">>")
        inner = inner.replace(
            "struct<sizes_bytes:array<double>,miss_ratios:array<double>>", "curve"
        )
        fields = dict(field.split(":") for field in inner.split(","))
        assert fields.keys() == found.items.properties.keys()
        for field, field_kind in fields.items():
            item = found.items.properties[field]
            (plain,) = (item.types or {"string"}) - {"null"}
            assert field_kind in hive.get(plain, {"string", "curve"}), field
