"""What AWS charges: one dated file of prices, each with its source."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from solver_lambda.documents.reader import DocumentError, Fields

PRICES_FILE = Path(__file__).with_name("prices.json")
INSTANCE_PREFIX = "instance_hour_"


@dataclasses.dataclass(frozen=True)
class Query:
    """Names the one product of the Price List API that a price is of, in any region.

    Attributes:
        service: its code.
        usage: its usage type without the region's prefix; some regions have another name.
        attributes: what else it is told apart by.
    """

    service: str
    usage: tuple[str, ...]
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)


# sns_filter_gb (by message body) and eventbridge_event have none that we know: kept by hand.
QUERIES: dict[str, Query] = {
    "lambda_request": Query("AWSLambda", ("Request",)),
    "lambda_gb_second_arm": Query("AWSLambda", ("Lambda-GB-Second-ARM",)),
    "lambda_gb_second_x86": Query("AWSLambda", ("Lambda-GB-Second",)),
    "s3_put": Query("AmazonS3", ("Requests-Tier1",), {"group": "S3-API-Tier1"}),
    "s3_get": Query("AmazonS3", ("Requests-Tier2",), {"group": "S3-API-Tier2"}),
    "s3_gb_month": Query("AmazonS3", ("TimedStorage-ByteHrs",), {"volumeType": "Standard"}),
    "sns_publish": Query("AmazonSNS", ("Requests-Tier1",)),
    "sns_http_delivery": Query("AmazonSNS", ("DeliveryAttempts-HTTP",)),
    "sqs_request": Query(
        "AWSQueueService", ("Requests-Tier1", "Requests-RBP"), {"queueType": "Standard"}
    ),
    "fargate_vcpu_hour_arm": Query("AmazonECS", ("Fargate-ARM-vCPU-Hours:perCPU",)),
    "fargate_gb_hour_arm": Query("AmazonECS", ("Fargate-ARM-GB-Hours",)),
    "public_address_hour": Query("AmazonVPC", ("PublicIPv4:InUseAddress",)),
    "ecr_gb_month": Query("AmazonECR", ("TimedStorage-ByteHrs",)),
    "ebs_gb_month": Query("AmazonEC2", ("EBS:VolumeUsage.gp3",), {"volumeApiName": "gp3"}),
    "cloudwatch_alarm_month": Query("AmazonCloudWatch", ("CW:AlarmMonitorUsage",)),
    "logs_ingested_gb": Query("AmazonCloudWatch", ("DataProcessing-Bytes",)),
    "logs_gb_month": Query("AmazonCloudWatch", ("TimedStorage-ByteHrs",)),
    "data_out_gb": Query(
        "AWSDataTransfer", ("DataTransfer-Out-Bytes",), {"transferType": "AWS Outbound"}
    ),
}


class PriceError(ValueError):
    """A file or an answer holds no usable price; the message names it and the key."""


@dataclasses.dataclass(frozen=True)
class Price:
    """``usd`` dollars buy ``per`` of ``unit``.

    Attributes:
        as_of, region: when and where the source read it at AWS, or ``None``.
    """

    usd: float
    per: float
    unit: str
    as_of: str | None
    region: str | None
    source: str

    @property
    def usd_per_unit(self) -> float:
        """Return the dollars for one unit."""
        return self.usd / self.per


@dataclasses.dataclass(frozen=True)
class Allowance:
    """What every account gets free of charge each month, without a time limit."""

    monthly: float
    unit: str
    as_of: str | None
    source: str


@dataclasses.dataclass(frozen=True)
class PriceList:
    """The file: ``date`` is when it was put together, as ``2026-11-21``."""

    date: str
    region: str
    currency: str
    note: str
    prices: Mapping[str, Price]
    free_tier: Mapping[str, Allowance]

    def usd(self, key: str) -> float:
        """Return dollars for one unit of ``key``."""
        return self.prices[key].usd_per_unit

    def free_yearly(self, key: str) -> float:
        """Units of ``key`` that a year's free tier covers; 0 without one."""
        allowance = self.free_tier.get(key)
        return 12 * allowance.monthly if allowance else 0.0

    def instance_types(self) -> list[str]:
        """Machines that have a price."""
        return [
            key.removeprefix(INSTANCE_PREFIX)
            for key in self.prices
            if key.startswith(INSTANCE_PREFIX)
        ]


def plain(usd: float) -> str:
    """Write all digits of a price, and no more: ``0.0000133334``."""
    return f"{usd:.10f}".rstrip("0").rstrip(".")


def read_prices(path: Path = PRICES_FILE) -> PriceList:
    """Read and check the file.

    Raises:
        PriceError: with the key at fault.
        OSError: it cannot be read.
    """
    try:
        fields = Fields(json.loads(path.read_text()), str(path))
        listed = PriceList(
            date=fields.text("date"),
            region=fields.text("region"),
            currency=fields.text("currency"),
            note=fields.text("note"),
            prices=dict(map(_price, _tables(fields, "prices"))),
            free_tier=dict(map(_allowance, _tables(fields, "free_tier"))),
        )
        fields.done()
        datetime.date.fromisoformat(listed.date)
    except DocumentError as error:
        raise PriceError(str(error)) from error
    except ValueError as error:
        raise PriceError(f"{path}: not a list of prices: {error}") from error
    missing = sorted(set(QUERIES) - set(listed.prices))
    if missing:
        raise PriceError(f"{path}: {missing[0]} is missing")
    return listed


def _tables(fields: Fields, key: str) -> Iterator[tuple[str, Fields]]:
    of_all = fields.table(key)
    return ((name, of_all.table(name)) for name in of_all.names())


def _price(named: tuple[str, Fields]) -> tuple[str, Price]:
    name, fields = named
    price = Price(
        usd=fields.number("usd", above=0),
        per=fields.number("per", above=0),
        unit=fields.text("unit"),
        as_of=fields.text("as_of") if fields.has("as_of") else None,
        region=fields.text("region") if fields.has("region") else None,
        source=fields.text("source"),
    )
    fields.done()
    return name, price


def _allowance(named: tuple[str, Fields]) -> tuple[str, Allowance]:
    name, fields = named
    allowance = Allowance(
        monthly=fields.number("monthly", above=0),
        unit=fields.text("unit"),
        as_of=fields.text("as_of") if fields.has("as_of") else None,
        source=fields.text("source"),
    )
    fields.done()
    return name, allowance


def write_prices(listed: PriceList, path: Path) -> None:
    """Replace the file in one step."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(dataclasses.asdict(listed), indent=2) + "\n")
    fresh.replace(path)
