"""The file of prices, and its refresh against AWS' Price List API, stubbed by botocore."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from infra.costs.price_list import (
    PRICES_FILE,
    QUERIES,
    PriceError,
    PriceList,
    read_prices,
    write_prices,
)
from infra.costs.price_list_api import filters, first_paid_tier, of_usage, query, refreshed
from infra.costs.prices import main
from tests.infra.costs_examples import PRICES

TODAY = datetime.date(2026, 2, 3)


def product(*tiers: tuple[str, str], usage: str = "USE2-Request") -> str:
    """A product as ``GetProducts`` gives it; each tier is where it begins and its price."""
    dimensions = {
        f"SKU.TERM.{i}": {
            "unit": "Requests",
            "beginRange": begin,
            "endRange": "Inf",
            "pricePerUnit": {"USD": usd},
        }
        for i, (begin, usd) in enumerate(tiers)
    }
    return json.dumps(
        {
            "product": {"sku": "SKU", "attributes": {"usagetype": usage}},
            "serviceCode": "AWSLambda",
            "terms": {"OnDemand": {"SKU.TERM": {"priceDimensions": dimensions}}},
        }
    )


@pytest.fixture
def pricing() -> Iterator[tuple[Any, Stubber]]:
    client = boto3.client(
        "pricing",
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    with Stubber(client) as stubber:
        yield client, stubber


def answer_all(
    stubber: Stubber, answers: Mapping[str, list[str]], region: str = "us-east-2"
) -> None:
    """Expect one question for each price that has a query, in order, and check its words."""
    for key in PRICES.prices:
        asked = query(key)
        if asked is None:
            continue
        usual = [product(("0", "0.25"), usage=f"USE2-{asked.usage[0]}")]
        stubber.add_response(
            "get_products",
            {"FormatVersion": "aws_v1", "PriceList": answers.get(key, usual)},
            {
                "ServiceCode": asked.service,
                "FormatVersion": "aws_v1",
                "Filters": filters(asked, region),
            },
        )


def test_a_question_names_the_region_and_what_tells_products_apart() -> None:
    asked = query("s3_put")
    assert asked is not None
    assert filters(asked, "eu-west-1") == [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "eu-west-1"},
        {"Type": "TERM_MATCH", "Field": "group", "Value": "S3-API-Tier1"},
    ]
    asked = query("data_out_gb")
    assert asked is not None
    assert filters(asked, "eu-west-1")[0]["Field"] == "fromRegionCode"


@pytest.mark.parametrize(
    ("key", "usage", "is_it"),
    [
        ("s3_put", "Requests-Tier1", True),
        ("s3_put", "USE2-Requests-Tier1", True),
        ("s3_put", "EU-Requests-Tier1", True),
        ("s3_put", "eu-south-2-Requests-Tier1", True),
        ("s3_put", "us-gov-west-1-Requests-Tier1", True),
        ("s3_put", "USE2-Requests-Tier2", False),
        ("s3_put", "USE2-XZ-Requests-Tier1", False),
        ("lambda_request", "EUC1-Request-ARM", False),
        ("lambda_gb_second_x86", "EUC1-Lambda-GB-Second-ARM", False),
        ("sqs_request", "Requests-RBP", True),
        ("instance_hour_t4g.micro", "EU-BoxUsage:t4g.micro", True),
        ("instance_hour_t4g.micro", "EU-BoxUsage:t4gxmicro", False),
    ],
)
def test_a_products_usage_type_is_the_wanted_one_behind_a_regions_prefix(
    key: str, usage: str, is_it: bool
) -> None:
    asked = query(key)
    assert asked is not None
    found = product(("0", "1"), usage=usage)
    assert of_usage([found], asked, key) == ({usage: [found]} if is_it else {})


def test_refresh_takes_the_first_tier_that_costs_anything(pricing: tuple[Any, Stubber]) -> None:
    client, stubber = pricing
    tiers = product(
        ("2000000", "0.0000003"),
        ("0", "0.0000000000"),
        ("1000000", "0.0000004000"),
        usage="USE2-Requests-Tier1",
    )
    other = product(("0", "7"), usage="USE2-Requests-FIFO-Tier1")
    answer_all(stubber, {"sqs_request": [tiers, other]})
    kept: list[str] = []
    new = refreshed(PRICES, client, TODAY, "us-east-2", kept.append)
    stubber.assert_no_pending_responses()
    assert new.prices["sqs_request"].usd == 0.4e-6
    assert new.prices["sqs_request"].as_of == new.date == "2026-02-03"
    assert "USE2-Requests-Tier1" in new.prices["sqs_request"].source
    assert new.prices["s3_put"].usd == 0.25
    assert kept == ["sns_filter_gb", "eventbridge_event"]
    assert new.prices["sns_filter_gb"] == PRICES.prices["sns_filter_gb"]
    assert new.free_tier == PRICES.free_tier


def test_refresh_keeps_the_scale_people_read(pricing: tuple[Any, Stubber]) -> None:
    client, stubber = pricing
    answer_all(stubber, {"lambda_request": [product(("0", "0.0000002000"))]})
    old = PRICES.prices["lambda_request"]
    scaled = type(old)(0.30, 1e6, "requests", None, None, "")
    listed = PriceList(**{**vars(PRICES), "prices": {**PRICES.prices, "lambda_request": scaled}})
    assert refreshed(listed, client, TODAY, "us-east-2").prices["lambda_request"].usd == 0.2


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [product(("0", "0.1")), product(("0", "0.2"))],
        [product(("0", "0"))],
        ["not JSON"],
        ['{"terms": {}}'],
        ['{"terms": {"OnDemand": {"a": {"priceDimensions": {"b": {}}}}}}'],
        ["[]"],
    ],
)
def test_refuses_an_answer_without_one_price(answer: list[str]) -> None:
    with pytest.raises(PriceError, match="s3_put"):
        first_paid_tier(answer, "s3_put")


def test_two_products_of_one_price_are_one_price() -> None:
    assert first_paid_tier([product(("0", "0.1")), product(("0", "0.1"))], "x") == 0.1


def test_the_command_rewrites_the_file_or_leaves_it(
    pricing: tuple[Any, Stubber],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client, stubber = pricing
    monkeypatch.setattr(boto3, "client", lambda *_args, **_kwargs: client)
    path = tmp_path / "prices.json"
    write_prices(PRICES, path)
    before = path.read_bytes()

    stubber.add_client_error("get_products", "AccessDeniedException")
    assert main(["refresh", "--file", str(path)]) == 3
    assert path.read_bytes() == before
    assert "left as it was" in capsys.readouterr().err

    answer_all(stubber, {})
    assert main(["refresh", "--file", str(path)]) == 0
    out = capsys.readouterr()
    assert "s3_put: 0.000005 -> 0.25 USD per 1 units" in out.out
    assert "sns_filter_gb is kept by hand" in out.err
    assert read_prices(path).prices["s3_put"].usd == 0.25
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_in_the_tree_is_dated_and_sourced() -> None:
    listed = read_prices()
    assert datetime.date.fromisoformat(listed.date)
    for key, entry in [*listed.prices.items(), *listed.free_tier.items()]:
        assert entry.source, key
        assert entry.as_of is None or datetime.date.fromisoformat(entry.as_of), key
    unknown = [key for key in listed.prices if query(key) is None]
    assert unknown == ["sns_filter_gb", "eventbridge_event"]
    assert set(QUERIES) <= set(listed.prices)
    # A thousand times off is the slip that a unit invites.
    assert listed.usd("s3_put") == pytest.approx(5e-6, rel=0.5)
    assert listed.usd("s3_get") == pytest.approx(4e-7, rel=0.5)
    assert listed.usd("lambda_gb_second_arm") == pytest.approx(1.33e-5, rel=0.5)
    assert listed.free_yearly("lambda_gb_second") == 4_800_000


def test_only_one_price_has_no_date() -> None:
    """Nobody was found who says when AWS asked so much for filtering."""
    listed = read_prices()
    assert [key for key, price in listed.prices.items() if price.as_of is None] == ["sns_filter_gb"]
    assert all(price.as_of > "2023" for price in listed.prices.values() if price.as_of)
    assert all(free.as_of for key, free in listed.free_tier.items()), listed.free_tier


def test_survives_being_written(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    write_prices(read_prices(), path)
    assert read_prices(path) == read_prices()


def broken(change: str) -> str:
    table = json.loads(PRICES_FILE.read_text())
    match change:
        case "text":
            return "{"
        case "list":
            return "[]"
        case "no prices":
            del table["prices"]
        case "no date":
            del table["date"]
        case "bad date":
            table["date"] = "yesterday"
        case "unknown key":
            table["currencies"] = "USD"
        case "unknown key of a price":
            table["prices"]["s3_put"]["eur"] = 5
        case "no unit":
            del table["prices"]["s3_put"]["unit"]
        case "negative":
            table["prices"]["s3_put"]["usd"] = -1
        case "text price":
            table["prices"]["s3_put"]["usd"] = "5"
        case "infinite":
            table["prices"]["s3_put"]["usd"] = float("inf")
        case "nothing":
            table["prices"]["s3_put"]["per"] = 0
        case "missing":
            del table["prices"]["s3_put"]
        case "free":
            table["free_tier"]["sqs_request"]["monthly"] = -3
    return json.dumps(table)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("text", "not a list of prices"),
        ("list", "the document must be a table, not a list"),
        ("no prices", "prices is missing"),
        ("no date", "date"),
        ("bad date", "yesterday"),
        ("unknown key", "currencies"),
        ("unknown key of a price", r"prices\.s3_put\.eur"),
        ("no unit", r"prices\.s3_put\.unit is missing"),
        ("negative", r"s3_put\.usd must be more than 0 and .*, not -1"),
        ("text price", r"s3_put\.usd must be a number, not '5'"),
        ("infinite", r"s3_put\.usd must be a finite number, not inf"),
        ("nothing", r"s3_put\.per must be more than 0 and .*, not 0"),
        ("missing", "s3_put is missing"),
        ("free", r"free_tier\.sqs_request\.monthly must be more than 0 and .*, not -3"),
    ],
)
def test_refuses_a_bad_file(
    change: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.json"
    path.write_text(broken(change))
    with pytest.raises(PriceError, match=named):
        read_prices(path)
    assert main(["show", "--file", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_another_region_goes_into_a_file_of_its_own(
    pricing: tuple[Any, Stubber],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client, stubber = pricing
    monkeypatch.setattr(boto3, "client", lambda *_args, **_kwargs: client)
    path, other = tmp_path / "prices.json", tmp_path / "europe.json"
    write_prices(PRICES, path)
    assert main(["refresh", "--file", str(path), "--region", "eu-west-1"]) == 2
    assert "say with --into where its prices go" in capsys.readouterr().err
    answer_all(stubber, {}, "eu-west-1")
    arguments = ["refresh", "--file", str(path), "--region", "eu-west-1", "--into", str(other)]
    assert main(arguments) == 0
    found = read_prices(other)
    assert (found.region, found.prices["s3_put"].region) == ("eu-west-1", "eu-west-1")
    assert read_prices(path) == PRICES


def test_all_regions_are_a_file_each(
    pricing: tuple[Any, Stubber], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, stubber = pricing
    monkeypatch.setattr(boto3, "client", lambda *_args, **_kwargs: client)
    regions = ["eu-west-1", "us-west-2", "us-east-2"]
    monkeypatch.setattr(boto3.Session, "get_available_regions", lambda *_: regions)
    path = tmp_path / "prices.json"
    write_prices(PRICES, path)
    answer_all(stubber, {}, "eu-west-1")
    stubber.add_client_error("get_products", "ThrottlingException")
    answer_all(stubber, {}, "us-east-2")
    folder = tmp_path / "regions"
    arguments = ["refresh", "--file", str(path), "--region", "all", "--into", str(folder)]
    assert main(arguments) == 3
    assert sorted(file.name for file in folder.iterdir()) == ["eu-west-1.json", "us-east-2.json"]


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show"]) == 0
    table = capsys.readouterr().out
    assert "$0.0000133334 per 1 GB-seconds" in table
    assert "undated" in table
    assert main(["show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(PRICES_FILE.read_text())
