"""The prices of today, from the AWS Price List API."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Sequence
from typing import Any

from infra.costs.price_list import (
    INSTANCE_PREFIX,
    QUERIES,
    PriceError,
    PriceList,
)

# The Price List API is served from few regions, whichever region's prices are asked for.
API_REGION = "us-east-1"
USAGE_PREFIX = {"us-east-2": "USE2"}

_INSTANCE_ATTRIBUTES = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


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
    elif key in QUERIES:
        service, usage, attributes = QUERIES[key]
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
        raise PriceError(
            f"{key}: the answer is not a product of the price list: {error!r}"
        ) from error
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
            region=listed.region,
            source=f"AWS Price List API, {service}, {attributes['usagetype']}",
        )
    return dataclasses.replace(
        listed,
        date=today.isoformat(),
        note="Refreshed from the AWS Price List API; the free tier, which it does not list, and "
        "prices with an older as_of are kept by hand.",
        prices=prices,
    )
