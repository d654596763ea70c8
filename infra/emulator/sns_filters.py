"""SNS' filter policies on the body look into arrays of objects."""

from __future__ import annotations

from typing import Any

from ministack.services import sns


def filter_into_arrays() -> None:
    """Replace ministack's own implementation."""
    lookup_in = sns._body_lookup

    def body_lookup(body: dict[str, Any]) -> Any:
        lookup = lookup_in(body)

        def child(key: str) -> Any:
            value = body.get(key)
            if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
                return _any_of([body_lookup(item) for item in value])
            return body_lookup(value) if isinstance(value, dict) else None

        lookup.child = child
        return lookup

    sns._body_lookup = body_lookup


def _any_of(lookups: list[Any]) -> Any:
    """One lookup over the objects of an array: it has every value that any of them has."""

    def lookup(key: str) -> tuple[bool, list[Any], bool]:
        found = [each(key) for each in lookups]
        return (
            any(present for present, _, _ in found),
            [value for _, values, _ in found for value in values],
            any(nonempty for _, _, nonempty in found),
        )

    def child(key: str) -> Any:
        children = [inner for inner in (each.child(key) for each in lookups) if inner is not None]
        return _any_of(children) if children else None

    lookup.child = child  # type: ignore[attr-defined]
    return lookup
