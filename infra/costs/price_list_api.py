"""The prices of today, from the AWS Price List API."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from infra.costs.price_list import (
    INSTANCE_PREFIX,
    QUERIES,
    PriceError,
    PriceList,
    Query,
)

# The Price List API is served from few regions, whichever region's prices are asked for.
API_REGION = "us-east-1"
# Usage types begin with a region's short name (``USE2-``, ``EU-``) or its long one
# (``us-east-2-``); some of the first region have neither.
_PREFIX = r"(?:[A-Z]+[0-9]?-|[a-z]+(?:-[a-z]+)+-[0-9]-)?"

_INSTANCE_ATTRIBUTES = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


def query(key: str) -> Query | None:
    """Return the query of the one product whose price is ``key``; ``None``: unknown."""
    if key.startswith(INSTANCE_PREFIX):
        kind = key.removeprefix(INSTANCE_PREFIX)
        attributes = {"instanceType": kind, **_INSTANCE_ATTRIBUTES}
        return Query("AmazonEC2", (f"BoxUsage:{kind}",), attributes)
    return QUERIES.get(key)


def filters(asked: Query, region: str) -> list[dict[str, str]]:
    """Make filters for ``GetProducts``. The usage type is not among them: it has a prefix."""
    where = "fromRegionCode" if asked.service == "AWSDataTransfer" else "regionCode"
    return [
        {"Type": "TERM_MATCH", "Field": field, "Value": value}
        for field, value in {where: region, **asked.attributes}.items()
    ]


def of_usage(products: Sequence[str], asked: Query, key: str) -> dict[str, list[str]]:
    """The products of the wanted usage type, by their own name of it. Raises PriceError."""
    usage = "|".join(re.escape(name) for name in asked.usage)
    found: dict[str, list[str]] = {}
    try:
        for text in products:
            name = json.loads(text)["product"]["attributes"]["usagetype"]
            if re.fullmatch(f"{_PREFIX}(?:{usage})", name):
                found.setdefault(name, []).append(text)
    except (ValueError, KeyError, TypeError) as error:
        raise PriceError(
            f"{key}: the answer is not a product of the price list: {error!r}"
        ) from error
    return found


def first_paid_tier(products: Sequence[str], key: str) -> float:
    """Return dollars a unit in the first tier that costs anything.

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
    region: str,
    skipped: Callable[[str], None] = lambda _key: None,
) -> PriceList:
    """Return the list with today's prices of a region; the free tier is not in the API, and stays.

    ``client`` is boto3's ``pricing``; ``skipped`` hears of each price that is kept by hand.

    Raises:
        PriceError: not one price for a key.
        botocore.exceptions.BotoCoreError, ClientError: AWS was not reached, or refused.
    """
    prices = dict(listed.prices)
    for key, old in listed.prices.items():
        asked = query(key)
        if asked is None:
            skipped(key)
            continue
        products: list[str] = []
        for page in client.get_paginator("get_products").paginate(
            ServiceCode=asked.service, FormatVersion="aws_v1", Filters=filters(asked, region)
        ):
            products += page["PriceList"]
        found = of_usage(products, asked, key)
        usd = first_paid_tier([text for texts in found.values() for text in texts], key)
        prices[key] = dataclasses.replace(
            old,
            usd=round(usd * old.per, 12),
            as_of=today.isoformat(),
            region=region,
            source=f"AWS Price List API, {asked.service}, {', '.join(sorted(found))}",
        )
    return dataclasses.replace(
        listed,
        date=today.isoformat(),
        region=region,
        note="Refreshed from the AWS Price List API; the free tier, which it does not list, and "
        "prices with an older as_of are kept by hand.",
        prices=prices,
    )
