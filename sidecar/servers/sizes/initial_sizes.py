"""Works out the sizes before the first plan: how a node that SPREDS takes over is brought within
M."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sidecar.config.node import ServerConfig
from solver_lambda.documents.reader import DocumentError
from solver_lambda.documents.units import format_size


def initial_sizes(
    servers: Sequence[ServerConfig],
    known_bytes: Mapping[str, int],
    fixed: Collection[str],
    budget_bytes: int,
    least_bytes: Mapping[str, int] | None = None,
    used_bytes: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """Return the size of each server in bytes; they sum to at most the budget.

    A server keeps the size it has (``known_bytes``), within its bounds; one that is unlimited (0)
    or unknown gets an equal share of the budget. If that is more than the budget, what each has
    above its minimum is scaled down by one factor. Where all ``used_bytes`` fit, nobody loses a
    key: each has what it uses, also one that is unlimited, and what is above that is scaled. The
    servers in ``fixed`` (those that do not evict, and would refuse writes, or that refuse another
    size) keep what they have. Nobody gets less than its ``least_bytes``, below which it would
    refuse writes, while the budget allows that; where it does not, these give way in proportion.
    Nor do anybody's ``least_bytes``, or a fixed server, while that can be, take another one's size
    below half of an equal share: most of it is what clients make.

    Raises:
        DocumentError: a fixed server is unlimited, or the fixed ones leave too little.
    """
    share_bytes = budget_bytes // len(servers)
    minima, floors, sizes = dict[str, int](), dict[str, int](), dict[str, int]()
    for server in servers:
        name, size_bytes = server.name, known_bytes.get(server.name, 0)
        if name in fixed:
            if not size_bytes:
                raise DocumentError(
                    f"server {name}: has no maxmemory and does not evict (noeviction, or a "
                    "replica): a limit would make it refuse writes; give it one or take it out"
                )
            sizes[name] = minima[name] = floors[name] = size_bytes
            continue
        if server.maximum_bytes is not None:
            size_bytes = min(size_bytes or share_bytes, server.maximum_bytes)
        minima[name] = server.minimum_bytes
        floors[name] = max(server.minimum_bytes, (least_bytes or {}).get(name, 0))
        sizes[name] = max(size_bytes or share_bytes, floors[name])
    _check_minima(minima, fixed, budget_bytes)
    unlimited = [one for one in servers if one.name not in fixed and not known_bytes.get(one.name)]
    used = _used(unlimited, sizes, floors, used_bytes or {}, budget_bytes)
    return _fitted(minima, floors, sizes, used, budget_bytes, is_beside=bool(fixed))


def _used(
    unlimited: Sequence[ServerConfig],
    sizes: Mapping[str, int],
    floors: Mapping[str, int],
    used_bytes: Mapping[str, int],
    budget_bytes: int,
) -> dict[str, int]:
    """Return what each uses of its size, as far as that is known; of those without one, all."""
    most = dict(sizes) | {one.name: one.maximum_bytes or budget_bytes for one in unlimited}
    return {
        name: max(floors[name], min(most[name], used_bytes.get(name, size)))
        for name, size in sizes.items()
    }


def _check_minima(minima: Mapping[str, int], fixed: Collection[str], budget_bytes: int) -> None:
    """Check that the minima fit the budget. Raises DocumentError."""
    if sum(minima.values()) > budget_bytes:
        need = format_size(sum(minima.values()))
        raise DocumentError(
            f"servers that keep their size ({', '.join(sorted(fixed))}) and the others' minima "
            f"need {need}, more than memory.budget, {format_size(budget_bytes)}"
        )


def sizes_to_begin_with(
    servers: Sequence[ServerConfig],
    found_bytes: Mapping[str, int],
    planned_bytes: Mapping[str, int],
    fixed: Collection[str],
    budget_bytes: int,
    least_bytes: Mapping[str, int],
    *,
    used_bytes: Mapping[str, int] | None = None,
    interrupted: bool,
) -> tuple[dict[str, int], dict[str, int]]:
    """Return sizes to have at once, and those to go to from there: the same, unless the last
    sidecar was ``interrupted`` on the way to ``planned_bytes``. Then that goes on, from what is
    found if it fits. Who does not answer had what the others leave: as much of what is planned for
    it.

    ``found_bytes`` is ``maxmemory`` of the servers that answer. Raises as ``initial_sizes``.
    """
    known = {**found_bytes, **planned_bytes} if interrupted else {**planned_bytes, **found_bytes}
    known |= {name: found_bytes[name] for name in fixed}
    targets = initial_sizes(servers, known, fixed, budget_bytes, least_bytes, used_bytes)
    sizes = {**_left_for(targets, found_bytes, budget_bytes), **found_bytes}
    if not interrupted or not all(sizes.values()) or sum(sizes.values()) > budget_bytes:
        return dict(targets), targets
    return initial_sizes(servers, sizes, fixed, budget_bytes, least_bytes, used_bytes), targets


def _left_for(
    targets_bytes: Mapping[str, int], found_bytes: Mapping[str, int], budget_bytes: int
) -> dict[str, int]:
    """Return the targets of those that were not found, scaled into what those that were leave."""
    wanted = {name: size for name, size in targets_bytes.items() if name not in found_bytes}
    left_bytes = max(0, budget_bytes - sum(found_bytes.values()))
    total_bytes = max(1, sum(wanted.values()))
    return {
        name: size * min(left_bytes, total_bytes) // total_bytes for name, size in wanted.items()
    }


def _fitted(
    minima: Mapping[str, int],
    floors: Mapping[str, int],
    sizes: Mapping[str, int],
    used: Mapping[str, int],
    budget_bytes: int,
    *,
    is_beside: bool,
) -> dict[str, int]:
    """Return the sizes scaled into the budget: none below what it uses, if that fits, or else below
    its floor as far as these fit. ``is_beside``: some are fixed."""
    if sum(used.values()) <= budget_bytes:
        wanted = {name: max(size, used[name]) for name, size in sizes.items()}
        fits = sum(wanted.values()) <= budget_bytes
        return wanted if fits else _scaled(used, wanted, budget_bytes - sum(used.values()))
    if sum(sizes.values()) <= budget_bytes:
        return dict(sizes)
    half_bytes = budget_bytes // len(sizes) // 2
    kept = {name: max(least, min(sizes[name], half_bytes)) for name, least in minima.items()}
    is_for_one = is_beside or any(floors[name] > kept[name] for name in kept)
    if is_for_one and sum(kept.values()) <= budget_bytes:
        minima, floors = kept, {name: max(floor, kept[name]) for name, floor in floors.items()}
    if sum(floors.values()) > budget_bytes:
        return _scaled(minima, floors, budget_bytes - sum(minima.values()))
    return _scaled(floors, sizes, budget_bytes - sum(floors.values()))


def _scaled(
    least: Mapping[str, int], wanted: Mapping[str, int], spare_bytes: int
) -> dict[str, int]:
    """Return what each wants above its least, scaled so that it sums to ``spare_bytes`` at most."""
    above_bytes = sum(wanted.values()) - sum(least.values())
    return {
        name: least[name] + (size_bytes - least[name]) * spare_bytes // above_bytes
        for name, size_bytes in wanted.items()
    }
