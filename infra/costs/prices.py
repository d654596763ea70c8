"""What AWS charges: one dated file of prices, each with its source, and the command to refresh it.

    python -m infra.costs.prices show [--json]      the prices and where they are from
    python -m infra.costs.prices refresh            rewrite the file from the AWS Price List API
    python -m infra.costs.prices refresh --region eu-west-1 --into FILE      of another region
    python -m infra.costs.prices refresh --region all --into FOLDER          REGION.json for each

`python -m infra.costs --prices FILE` counts with them. Exit codes: 0 done, 2 bad arguments or a bad
file, 3 AWS did not answer with one price for each key (then that file stays as it was).
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from infra.closed_pipe import exit_code
from infra.costs.price_list import (
    PRICES_FILE,
    PriceError,
    PriceList,
    plain,
    read_prices,
    write_prices,
)
from infra.costs.price_list_api import (
    API_REGION,
    refreshed,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.costs.prices",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("verb", choices=("show", "refresh"))
    parser.add_argument(
        "--file", type=Path, default=PRICES_FILE, help="the file of prices (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="with show: print JSON")
    parser.add_argument(
        "--region", help="with refresh: whose prices, or all (default: the file's region)"
    )
    parser.add_argument(
        "--into", type=Path, help="with refresh: the file to write, or the folder for all regions"
    )
    options = parser.parse_args(arguments)
    try:
        listed = read_prices(options.file)
    except (PriceError, OSError) as error:
        print(f"prices: {error}", file=sys.stderr)
        return 2
    if options.verb == "show":
        return _show(listed, options.json)
    if options.region not in (None, listed.region) and options.into is None:
        print(
            f"prices: --region {options.region} is not that of {options.file}, {listed.region}: "
            "say with --into where its prices go",
            file=sys.stderr,
        )
        return 2
    into = options.into or options.file
    if options.region == "all":
        return _refresh_all(listed, into)
    return _refresh(listed, options.region or listed.region, into)


def _show(listed: PriceList, as_json: bool) -> int:
    if as_json:
        print(json.dumps(dataclasses.asdict(listed), indent=2))
        return 0
    print(f"Prices of {listed.date} for {listed.region}. {listed.note}\n")
    for key, price in listed.prices.items():
        amount = f"${plain(price.usd)} per {price.per:,.0f} {price.unit}"
        region = price.region or "no region"
        print(f"{key:24} {amount:38} {price.as_of or 'undated':10} {region:14}  {price.source}")
    print("\nFree each month:")
    for key, free in listed.free_tier.items():
        amount = f"{free.monthly:,.0f} {free.unit}"
        print(f"{key:24} {amount:38} {free.as_of or 'undated':10}  {free.source}")
    return 0


def _refresh_all(listed: PriceList, folder: Path) -> int:
    """Refresh each region that sells functions; one that fails does not hinder the others."""
    import boto3

    folder.mkdir(parents=True, exist_ok=True)
    regions = boto3.Session().get_available_regions("lambda")
    return max(_refresh(listed, region, folder / f"{region}.json") for region in regions)


def _refresh(listed: PriceList, region: str, path: Path) -> int:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    def kept(key: str) -> None:
        print(f"prices: {key} is kept by hand, check it yourself", file=sys.stderr)

    today = datetime.datetime.now(tz=datetime.UTC).date()
    try:
        client = boto3.client("pricing", region_name=API_REGION)
        new = refreshed(listed, client, today, region, kept)
    except (PriceError, BotoCoreError, ClientError) as error:
        print(f"prices: {path} is left as it was: {region}: {error}", file=sys.stderr)
        return 3
    write_prices(new, path)
    for key, price in new.prices.items():
        if price.usd != listed.prices[key].usd:
            print(
                f"{key}: {plain(listed.prices[key].usd)} -> {plain(price.usd)} USD "
                f"per {price.per:,.0f} {price.unit}"
            )
    print(f"{path}: prices of {new.date}, {region}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
