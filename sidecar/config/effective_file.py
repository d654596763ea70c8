"""Writes a configuration as a file that says the same, with every option and its value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from sidecar.config.addresses import shown_url
from sidecar.config.controller_config import ControllerConfig
from sidecar.config.memory import Amount, MemoryConfig
from sidecar.config.node import ServerConfig, SidecarConfig
from sidecar.config.operators import OperatorsConfig
from sidecar.config.sampling import AUTO, SamplingConfig
from sidecar.config.settings_limits import SettingsLimits
from sidecar.samples.wire_format import DEFAULT_MODULUS
from solver_lambda.documents.server_settings import SERVER_SETTINGS
from solver_lambda.documents.units import format_duration, format_size, parse_duration, parse_size

# By their names in the file, as people write them; ``None``: it has none.
Options = dict[str, object]
_HOW_MANY = {"rate", "threshold", "modulus"}  # a file has one of two ways, and is told in one


def effective_lines(config: SidecarConfig) -> Iterator[str]:
    """Yield the lines of that file. What has no value is a comment, and so is where a secret comes
    from an environment variable; a secret itself is never told."""
    for heading, options in _tables(config):
        yield from _lines(heading, options)


def written_lines(config: SidecarConfig, written: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of options that ``written`` sets, a file as it was parsed, and a comment on
    how many it leaves to their defaults."""
    by_heading = {"": written, **written} | {
        f"server {server.name}": given
        for server, given in zip(config.servers, written["server"], strict=True)
    }
    hidden = 0
    for heading, options in _tables(config):
        given = set(by_heading.get(heading, ()))
        given |= _HOW_MANY if given & _HOW_MANY else set()
        shown = {key: options[key] for key in options if key in given or key.startswith("#")}
        hidden += len(options) - len(shown)
        if shown:
            yield from _lines(heading, shown)
    yield from ("", f"# {hidden} more options have their defaults: --verbose lists them")


def changed_options(old: SidecarConfig, new: SidecarConfig) -> list[str]:
    """Say which values are others in the new one, for people."""
    before = dict(_tables(old))
    return [
        f"{heading}{'.' if heading else ''}{key} {_value(before[heading].get(key))} -> "
        f"{_value(options.get(key))}"
        for heading, options in _tables(new)
        if heading in before
        for key in (options | before[heading])
        if options.get(key) != before[heading].get(key)
    ]


def _tables(config: SidecarConfig) -> Iterator[tuple[str, Options]]:
    """Yield what stands under each heading; "" is the file's beginning."""
    mode: Options = {"mode": config.mode}
    if config.mode is None:
        mode = {"# mode": "recommend, until an order says otherwise"}
    yield "", {"node": config.node, **mode, "state_file": config.state_file}
    yield "memory", _memory(config.memory)
    yield "sampling", _sampling(config.sampling)
    yield (
        "cycle",
        {
            "samples": config.cycle.samples,
            "maximum_age": duration_text(config.cycle.maximum_age_seconds),
        },
    )
    yield "controller", _controller(config.controller)
    yield "planning", _planning(config)
    yield "limits", _limits(config.limits)
    yield "prices", asdict(config.prices)
    yield "operators", _operators(config.operators)
    yield "log", {"format": config.log.format}
    for server in config.servers:
        yield f"server {server.name}", _server(server)


def _value(value: object) -> str:
    return "none" if value is None else str(value)


def size_text(size_bytes: int) -> str:
    """Write a size as an operator does, to the byte."""
    text = format_size(size_bytes).replace(" ", "")
    return text if parse_size(text) == size_bytes else f"{size_bytes}b"


def duration_text(seconds: float) -> str:
    """Write a duration as an operator does, exactly."""
    text = format_duration(seconds)
    return text if parse_duration(text) == seconds else f"{Decimal(repr(seconds)):f}s"


def _lines(heading: str, options: Options) -> Iterator[str]:
    if heading:
        yield from ("", "[[server]]" if heading.startswith("server ") else f"[{heading}]")
    for key, value in options.items():
        if value is None:
            yield f"# {key}: none"
        elif key.startswith("#"):
            yield f"{key}: {value}"
        else:
            shown = str(value) if isinstance(value, Path) else value
            words = toml_string(shown) if isinstance(shown, str) else json.dumps(shown)
            yield f"{key} = {words}"


def toml_string(text: str) -> str:
    """Write a basic string of TOML, in ASCII; JSON's has two halves for what is beyond 16 bits."""
    return f'"{"".join(_letter(one) for one in text)}"'


def _letter(one: str) -> str:
    return f"\\U{ord(one):08x}" if ord(one) > 0xFFFF else json.dumps(one)[1:-1]


def _memory(memory: MemoryConfig) -> Options:
    return {
        "budget": _amount(memory.budget),
        **({} if memory.budget_share is None else {"# now": size_text(memory.budget_bytes)}),
        "cgroup": memory.cgroup,
        "rss_budget": _amount(memory.rss_budget),
        "unit": size_text(memory.unit_bytes),
        "rss_wait": duration_text(memory.rss_wait_seconds),
        "set_by_hand": "hold" if memory.holds_by_hand else "put_back",
        "eviction_tenacity": memory.eviction_tenacity,
    }


def _amount(amount: Amount | None) -> str | None:
    if amount is None:
        return None
    return str(amount) if amount.bytes is None else size_text(amount.bytes)


def _sampling(sampling: SamplingConfig) -> Options:
    how_many: Options = {"threshold": sampling.threshold, "modulus": sampling.modulus}
    if sampling.is_automatic:
        how_many = {"rate": AUTO}
    elif sampling.modulus == DEFAULT_MODULUS:
        how_many = {"rate": _rate(sampling.threshold)}
    is_open = not sampling.endpoint.startswith("ipc:///")
    return {
        "endpoint": sampling.endpoint,
        **how_many,
        "group": None if sampling.group is None else str(sampling.group),
        **({"open_endpoint": True} if is_open else {}),
        "live_objects": sampling.live_objects,
    }


def _rate(threshold: int) -> float:
    """Return the shortest rate that gives this threshold."""
    rates = (float(f"{threshold / DEFAULT_MODULUS:.{digits}g}") for digits in range(1, 17))
    return next(rate for rate in rates if round(rate * DEFAULT_MODULUS) == threshold)


def _controller(controller: ControllerConfig) -> Options:
    options: Options = {
        "kind": controller.kind,
        "folder": controller.folder,
        "plan_deadline": duration_text(controller.plan_deadline_seconds),
        "maximum_plan_age": duration_text(controller.maximum_plan_age_seconds),
        "keep_documents": duration_text(controller.kept.seconds),
        "keep_documents_number": controller.kept.number,
    }
    if (cloud := controller.cloud) is not None:
        options |= {
            "observations_bucket": cloud.observations_bucket,
            "plans_bucket": cloud.plans_bucket,
            "account_id": cloud.account_id,
            "region": cloud.region,
            "topic_arn": cloud.topic_arn,
            "delivery": cloud.delivery,
            **_url(cloud.queue_url, "queue_url"),
            "listen": None if cloud.listen is None else _address(*cloud.listen),
            **_url(cloud.endpoint_url, "endpoint_url"),
        }
    if (service := controller.service) is not None:
        options |= {
            **_url(service.url),
            **_secret("token", service.token, service.token_path),
            **_secret("key", service.key, service.key_path),
            "ssl_ca_certs": service.ssl_ca_certs,
            "allow_plain_http": service.allow_plain_http,
        }
    return options


def _secret(key: str, value: object, path: Path | None) -> Options:
    if value is None or path is not None:
        return {f"{key}_file": path}
    return {f"# {key}_env": "set"}


def _planning(config: SidecarConfig) -> Options:
    options: Options = {"forecast": "competing" if config.forecasts else "last"}
    for name, value in config.planning.to_json().items():
        key = name.removesuffix("_seconds")
        options[key] = value if key == name else duration_text(value)
    return options


def _limits(limits: SettingsLimits) -> Options:
    return {
        "minimum_weight": limits.minimum_weight,
        "maximum_weight": limits.maximum_weight,
        "maximum_backend_latency": duration_text(limits.maximum_backend_latency_seconds),
        "maximum_minimum": size_text(limits.maximum_minimum_bytes),
    }


def _operators(operators: OperatorsConfig) -> Options:
    return {
        "socket": operators.socket,
        "group": operators.group,
        "listen": None if operators.listen is None else _address(*operators.listen),
        "listen_anywhere": operators.anywhere,
        **_secret("token", operators.token, operators.token_path),
    }


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _url(url: str | None, key: str = "url") -> Options:
    """Return a URL without what may be a secret in it."""
    if url is None:
        return {key: None}
    shown, mark, _ = shown_url(url).partition("?")
    return {key: shown, **({f"# after the ? of {key}": "not shown"} if mark else {})}


def _server(server: ServerConfig) -> Options:
    return {
        "name": server.name,
        **_url(server.url),
        **dict(_settings(server)),
        "maximum": None if server.maximum_bytes is None else size_text(server.maximum_bytes),
        "cache_latency": duration_text(server.cache_latency_seconds),
        "cache": server.cache,
        "floor": server.floor,
        "username": server.username,
        **_password(server),
        **(server.tls.__dict__ if server.tls else {}),
    }


def _settings(server: ServerConfig) -> Iterator[tuple[str, object]]:
    for setting in SERVER_SETTINGS:
        value = server.bounds.get(setting.name, getattr(server, setting.name, None))
        if value is not None and setting.written == "size":
            yield setting.option, size_text(int(value))
        elif value is not None and setting.written == "duration":
            yield setting.option, duration_text(value)
        else:
            yield setting.option, value


def _password(server: ServerConfig) -> Options:
    if server.password_from is None:
        return {"password_file": None}
    key, _, named = server.password_from.partition(" ")
    return {key: server.password_path or named[1:-1]}
