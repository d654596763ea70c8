"""Optional: the documents of all nodes as tables of AWS Glue, to be asked by Athena.

The buckets stay as they are: tables describe what lies in them. A table of a cell knows the cell's
nodes by partition projection, so nothing has to be registered. A query that names a node reads that
one's prefix alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import Aws, aws_glue
from constructs import Construct

from solver_lambda.documents.keys import OBSERVATIONS_PREFIX, PLANS_PREFIX

Columns = Mapping[str, str | Mapping[str, str]]
# Left out of both: the node, which is the partition. A column cannot have its name.
PLAN_COLUMNS: Columns = {
    "kind": "string",
    "version": "int",
    "cycle": "bigint",
    "observation_made_at_seconds": "double",
    "made_at_seconds": "double",
    "budget_bytes": "bigint",
    "method": "string",
    "decision": "string",
    "reason": "string",
    "optimality_gap": "double",
    "mean_access_time_before_seconds": "double",
    "mean_access_time_seconds": "double",
    "servers": {
        "name": "string",
        "maxmemory_before_bytes": "bigint",
        "maxmemory_bytes": "bigint",
        "hit_ratio_before": "double",
        "hit_ratio": "double",
        "eat_before_seconds": "double",
        "eat_seconds": "double",
        "marginal_gain_seconds_per_mebibyte": "double",
        "reason": "string",
        "settings_version": "string",
        "weight": "double",
        "request_rate_per_second": "double",
        "installed_bytes": "bigint",
        "eat_installed_seconds": "double",
    },
    "what_if": {
        "budget_bytes": "bigint",
        "mean_access_time_seconds": "double",
        "hit_ratio": "double",
        "misses_per_second": "double",
        "optimality_gap": "double",
        "equal_sizes_seconds": "double",
        "equal_sizes_misses_per_second": "double",
    },
    "run_seconds": "double",
    "run_memory_bytes": "bigint",
    "window_seconds": "double",
}
# Without `planning`: it is the operator's file again.
OBSERVATION_COLUMNS: Columns = {
    "kind": "string",
    "version": "int",
    "cycle": "bigint",
    "made_at_seconds": "double",
    "window_seconds": "double",
    "cycle_seconds": "double",
    "budget_bytes": "bigint",
    "unit_bytes": "bigint",
    "chance_ratio": "double",
    "goes_back": "boolean",
    "budget_ratios": "array<double>",
    "servers": {
        "name": "string",
        "maxmemory_bytes": "bigint",
        "minimum_bytes": "bigint",
        "maximum_bytes": "bigint",
        "weight": "double",
        "request_rate_per_second": "double",
        "cache_latency_seconds": "double",
        "backend_latency_seconds": "double",
        "backend_latency_source": "string",
        "measured_backend_latency_seconds": "double",
        "fill_ratio": "double",
        "miss_ratio": "double",
        "inserted_per_read": "double",
        "curve": "struct<sizes_bytes:array<double>,miss_ratios:array<double>>",
        "curve_error_ratio": "double",
        "sampled_objects": "bigint",
        "mean_object_bytes": "double",
        "changed_at_seconds": "double",
        "keep_reason": "string",
        "settings_version": "string",
        "installed_bytes": "bigint",
        "latency_bound_seconds": "double",
        "miss_bound_per_second": "double",
    },
}
JSON_READER = "org.openx.data.jsonserde.JsonSerDe"
TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"


def table_name(documents: str, cell: str) -> str:
    """Name a cell's table: ``plans_a`` of the cell ``a``."""
    return f"{documents}_{cell.replace('-', '_')}"


class FleetDatabase(Construct):
    """Adds the database to the shared stack; ``name`` is the installation's."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str) -> None:
        super().__init__(scope, construct_id)
        aws_glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=aws_glue.CfnDatabase.DatabaseInputProperty(
                name=name, description="Observations and plans of all nodes"
            ),
        )


class FleetTables(Construct):
    """Adds the tables of one cell; the database is there before. ``nodes`` are the cell's."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        cell: str,
        observations_bucket: str,
        plans_bucket: str,
        nodes: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        for documents, bucket, columns in (
            (PLANS_PREFIX, plans_bucket, PLAN_COLUMNS),
            (OBSERVATIONS_PREFIX, observations_bucket, OBSERVATION_COLUMNS),
        ):
            self._table(
                name,
                table_name(documents, cell),
                f"s3://{bucket}/{documents}/",
                columns,
                nodes,
            )

    def _table(
        self, database: str, name: str, location: str, columns: Columns, nodes: Sequence[str]
    ) -> None:
        aws_glue.CfnTable(
            self,
            name.replace("_", "-"),
            catalog_id=Aws.ACCOUNT_ID,
            database_name=database,
            table_input=aws_glue.CfnTable.TableInputProperty(
                name=name,
                table_type="EXTERNAL_TABLE",
                partition_keys=[aws_glue.CfnTable.ColumnProperty(name="node", type="string")],
                parameters={
                    "EXTERNAL": "TRUE",
                    "classification": "json",
                    "projection.enabled": "true",
                    "projection.node.type": "enum",
                    "projection.node.values": ",".join(sorted(nodes)),
                    "storage.location.template": f"{location}${{node}}/",
                },
                storage_descriptor=aws_glue.CfnTable.StorageDescriptorProperty(
                    location=location,
                    columns=[
                        aws_glue.CfnTable.ColumnProperty(name=column, type=hive_type(kind))
                        for column, kind in columns.items()
                    ],
                    input_format=TEXT_INPUT,
                    output_format=TEXT_OUTPUT,
                    serde_info=aws_glue.CfnTable.SerdeInfoProperty(
                        serialization_library=JSON_READER,
                        # A file that is no document is a row of nulls, and stops no query.
                        parameters={"ignore.malformed.json": "true"},
                    ),
                ),
            ),
        )


def hive_type(kind: str | Mapping[str, str]) -> str:
    """Return what Glue calls it; a mapping is a list of such tables."""
    if isinstance(kind, str):
        return kind
    fields = ",".join(f"{name}:{item}" for name, item in kind.items())
    return f"array<struct<{fields}>>"
