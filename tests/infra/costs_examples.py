"""Prices and measurements with round numbers, so that sums can be checked by hand."""

from __future__ import annotations

from infra.costs.measured import DocumentBytes, Measured
from infra.costs.price_list import Allowance, Price, PriceList

_USD_PER_UNIT = {
    "lambda_request": 0.20e-6,
    "lambda_gb_second_arm": 0.00001,
    "lambda_gb_second_x86": 0.00002,
    "s3_put": 5e-6,
    "s3_get": 0.4e-6,
    "s3_gb_month": 0.02,
    "sns_publish": 0.5e-6,
    "sns_http_delivery": 0.6e-6,
    "sns_filter_gb": 0.10,
    "sqs_request": 0.4e-6,
    "fargate_vcpu_hour_arm": 0.03,
    "fargate_gb_hour_arm": 0.004,
    "public_address_hour": 0.005,
    "eventbridge_event": 1e-6,
    "ecr_gb_month": 0.10,
    "ebs_gb_month": 0.08,
    "cloudwatch_alarm_month": 0.10,
    "logs_ingested_gb": 0.50,
    "logs_gb_month": 0.03,
    "data_out_gb": 0.09,
    "instance_hour_t4g.micro": 0.01,
}
_FREE_MONTHLY = {
    "lambda_request": 1e6,
    "lambda_gb_second": 400_000,
    "sns_publish": 1e6,
    "sns_http_delivery": 100_000,
    "sqs_request": 1e6,
    "cloudwatch_alarm_month": 10,
    "logs_ingested_gb": 5,
}

PRICES = PriceList(
    date="2026-01-01",
    region="us-east-2",
    currency="USD",
    note="An example.",
    prices={
        key: Price(usd, 1, "units", "2026-01-01", "us-east-2", "an example")
        for key, usd in _USD_PER_UNIT.items()
    },
    free_tier={
        key: Allowance(monthly, "units", "2026-01-01", "an example")
        for key, monthly in _FREE_MONTHLY.items()
    },
)

MEASURED = Measured(
    date="2026-01-01",
    how="An example.",
    init_cpu_seconds=0.3,
    run_points=((1, 0.02), (3, 0.04), (10, 0.11)),
    peak_memory_bytes=64 << 20,
    observation_bytes=DocumentBytes(400, 5000),
    plan_bytes=DocumentBytes(600, 300),
    log_bytes=DocumentBytes(350, 50),
)
