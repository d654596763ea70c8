"""What AWS asks: one dated file of prices, each with its source, and the command to refresh it.

    python -m infra.costs.prices show [--json]      the prices and where they are from
    python -m infra.costs.prices refresh            rewrite the file from the AWS Price List API

Exit codes: 0 done, 2 bad arguments or a bad file, 3 AWS did not answer with one price for each key
(then the file stays as it was).
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PRICES_FILE = Path(__file__).with_name("prices.json")
# The Price List API is served from few regions, whichever region's prices are asked for.
API_REGION = "us-east-1"
USAGE_PREFIX = {"us-east-2": "USE2"}
INSTANCE_PREFIX = "instance_hour_"

# Usage type without the region's prefix, and what else tells products of one usage type apart.
# sns_filter_gb (by message body) and eventbridge_event have none that we know: kept by hand.
_QUERIES: dict[str, tuple[str, str, dict[str, str]]] = {
    "lambda_request": ("AWSLambda", "Request", {}),
    "lambda_gb_second_arm": ("AWSLambda", "Lambda-GB-Second-ARM", {}),
    "lambda_gb_second_x86": ("AWSLambda", "Lambda-GB-Second", {}),
    "s3_put": ("AmazonS3", "Requests-Tier1", {"group": "S3-API-Tier1"}),
    "s3_get": ("AmazonS3", "Requests-Tier2", {"group": "S3-API-Tier2"}),
    "s3_gb_month": ("AmazonS3", "TimedStorage-ByteHrs", {"volumeType": "Standard"}),
    "sns_publish": ("AmazonSNS", "Requests-Tier1", {}),
    "sns_http_delivery": ("AmazonSNS", "DeliveryAttempts-HTTP", {}),
    "sqs_request": ("AWSQueueService", "Requests-Tier1", {"queueType": "Standard"}),
    "fargate_vcpu_hour_arm": ("AmazonECS", "Fargate-ARM-vCPU-Hours:perCPU", {}),
    "fargate_gb_hour_arm": ("AmazonECS", "Fargate-ARM-GB-Hours", {}),
    "public_address_hour": ("AmazonVPC", "PublicIPv4:InUseAddress", {}),
    "ecr_gb_month": ("AmazonECR", "TimedStorage-ByteHrs", {}),
    "ebs_gb_month": ("AmazonEC2", "EBS:VolumeUsage.gp3", {}),
    "cloudwatch_alarm_month": ("AmazonCloudWatch", "CW:AlarmMonitorUsage", {}),
    "logs_ingested_gb": ("AmazonCloudWatch", "DataProcessing-Bytes", {}),
    "logs_gb_month": ("AmazonCloudWatch", "TimedStorage-ByteHrs", {}),
}
_INSTANCE_ATTRIBUTES = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


class PriceError(ValueError):
    """A file or an answer holds no usable price; the message names it and the key."""


@dataclasses.dataclass(frozen=True)
class Price:
    """``usd`` dollars buy ``per`` of ``unit``; ``as_of`` is the source's own date, or ``None``."""

    usd: float
    per: float
    unit: str
    as_of: str | None
    source: str

    @property
    def usd_per_unit(self) -> float:
        """Dollars for one unit."""
        return self.usd / self.per


@dataclasses.dataclass(frozen=True)
class Allowance:
    """What every account gets for nothing each month, for ever."""

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
        """Dollars for one unit of ``key``."""
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
    """All digits of a price, and no more: ``0.0000133334``."""
    return f"{usd:.10f}".rstrip("0").rstrip(".")


def read_prices(path: Path = PRICES_FILE) -> PriceList:
    """Read and check the file.

    Raises:
        PriceError: with the key at fault.
        OSError: it cannot be read.
    """
    try:
        table = json.loads(path.read_text())
        listed = PriceList(
            **{
                **table,
                "prices": {key: Price(**entry) for key, entry in table["prices"].items()},
                "free_tier": {key: Allowance(**entry) for key, entry in table["free_tier"].items()},
            }
        )
        datetime.date.fromisoformat(listed.date)
    except KeyError as error:
        raise PriceError(f"{path}: {error.args[0]} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise PriceError(f"{path}: not a list of prices: {error}") from error
    amounts = {key: (price.usd, price.per) for key, price in listed.prices.items()} | {
        f"free_tier.{key}": (free.monthly, 1) for key, free in listed.free_tier.items()
    }
    for key, (amount, per) in amounts.items():
        for number in (amount, per):
            if not isinstance(number, int | float) or not 0 < number < math.inf or number is True:
                raise PriceError(f"{path}: {key} must be more than 0, not {number!r}")
    missing = sorted(set(_QUERIES) - set(listed.prices))
    if missing:
        raise PriceError(f"{path}: {missing[0]} is missing")
    return listed


def write_prices(listed: PriceList, path: Path) -> None:
    """Replace the file in one step."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(dataclasses.asdict(listed), indent=2) + "\n")
    fresh.replace(path)


def query(key: str, region: str) -> tuple[str, dict[str, str]] | None:
    """Service code and attributes of the one product whose price is ``key``; ``None``: unknown.

    Raises:
        PriceError: a region whose usage types we do not know.
    """
    if region not in USAGE_PREFIX:
        raise PriceError(f"region must be one of {', '.join(USAGE_PREFIX)}, not {region!r}")
    if key.startswith(INSTANCE_PREFIX):
        usage = f"BoxUsage:{key.removeprefix(INSTANCE_PREFIX)}"
        service, attributes = "AmazonEC2", _INSTANCE_ATTRIBUTES
    elif key in _QUERIES:
        service, usage, attributes = _QUERIES[key]
    else:
        return None
    return service, {"usagetype": f"{USAGE_PREFIX[region]}-{usage}", **attributes}


def first_paid_tier(products: Sequence[str], key: str) -> float:
    """Dollars a unit in the first tier that costs anything.

    ``products`` are JSON documents as ``GetProducts`` gives them. Prices beyond the first paid
    tier begin at volumes that no SPREDS stack comes near.

    Raises:
        PriceError: no price, or products that differ in it.
    """
    found: set[float] = set()
    try:
        for text in products:
            for term in json.loads(text)["terms"]["OnDemand"].values():
                paid = [
                    (float(tier["beginRange"]), float(tier["pricePerUnit"]["USD"]))
                    for tier in term["priceDimensions"].values()
                    if float(tier["pricePerUnit"]["USD"]) > 0
                ]
                if paid:
                    found.add(min(paid)[1])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PriceError(f"{key}: the answer is no product of the price list: {error!r}") from error
    if len(found) != 1:
        raise PriceError(f"{key}: {len(products)} products with {len(found)} different prices")
    return found.pop()


def refreshed(
    listed: PriceList,
    client: Any,
    today: datetime.date,
    skipped: Callable[[str], None] = lambda _key: None,
) -> PriceList:
    """The same list with today's prices; the free tier is not in the API, and stays.

    ``client`` is boto3's ``pricing``; ``skipped`` hears of each price that is kept by hand.

    Raises:
        PriceError: not one price for a key.
        botocore.exceptions.BotoCoreError, ClientError: AWS was not reached, or refused.
    """
    prices = dict(listed.prices)
    for key, old in listed.prices.items():
        asked = query(key, listed.region)
        if asked is None:
            skipped(key)
            continue
        service, attributes = asked
        products: list[str] = []
        for page in client.get_paginator("get_products").paginate(
            ServiceCode=service,
            FormatVersion="aws_v1",
            Filters=[
                {"Type": "TERM_MATCH", "Field": field, "Value": value}
                for field, value in attributes.items()
            ],
        ):
            products += page["PriceList"]
        prices[key] = dataclasses.replace(
            old,
            usd=round(first_paid_tier(products, key) * old.per, 12),
            as_of=today.isoformat(),
            source=f"AWS Price List API, {service}, {attributes['usagetype']}",
        )
    return dataclasses.replace(
        listed,
        date=today.isoformat(),
        note="Refreshed from the AWS Price List API; the free tier, which it does not list, and "
        "prices with an older as_of are kept by hand.",
        prices=prices,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.costs.prices",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("show", "refresh"))
    parser.add_argument("--file", type=Path, default=PRICES_FILE, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="show: as JSON")
    options = parser.parse_args(arguments)
    try:
        listed = read_prices(options.file)
    except (PriceError, OSError) as error:
        print(f"prices: {error}", file=sys.stderr)
        return 2
    return _show(listed, options.json) if options.verb == "show" else _refresh(listed, options.file)


def _show(listed: PriceList, as_json: bool) -> int:
    if as_json:
        print(json.dumps(dataclasses.asdict(listed), indent=2))
        return 0
    print(f"Prices of {listed.date} for {listed.region}. {listed.note}\n")
    for key, price in listed.prices.items():
        amount = f"${plain(price.usd)} per {price.per:,.0f} {price.unit}"
        print(f"{key:24} {amount:38} {price.as_of or 'undated':10}  {price.source}")
    print("\nFree each month:")
    for key, free in listed.free_tier.items():
        amount = f"{free.monthly:,.0f} {free.unit}"
        print(f"{key:24} {amount:38} {free.as_of or 'undated':10}  {free.source}")
    return 0


def _refresh(listed: PriceList, path: Path) -> int:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    def kept(key: str) -> None:
        print(f"prices: {key} is kept by hand, check it yourself", file=sys.stderr)

    today = datetime.datetime.now(tz=datetime.UTC).date()
    try:
        new = refreshed(listed, boto3.client("pricing", region_name=API_REGION), today, kept)
    except (PriceError, BotoCoreError, ClientError) as error:
        print(f"prices: {path} is left as it was: {error}", file=sys.stderr)
        return 3
    write_prices(new, path)
    for key, price in new.prices.items():
        if price.usd != listed.prices[key].usd:
            print(
                f"{key}: {plain(listed.prices[key].usd)} -> {plain(price.usd)} USD "
                f"per {price.per:,.0f} {price.unit}"
            )
    print(f"{path}: prices of {new.date}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
