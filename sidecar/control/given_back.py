"""Sizes that somebody set by hand, once their servers take part in plans again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from sidecar.servers.server_reading import ServerReading
from sidecar.state.room_made import CLEARLY_LESS
from sidecar.state.sidecar_state import SidecarState
from solver_lambda.documents.units import format_size


def given_back(
    names: Collection[str],
    state: SidecarState,
    readings: Mapping[str, ServerReading],
    changed: Callable[[str, int, int, str], None],
) -> str:
    """Where servers go that were held at such a size, for people; ``changed`` is told of each."""
    ways = []
    for name in names:
        reading, wanted = readings.get(name), state.targets_bytes.get(name)
        has = reading.maxmemory_bytes if reading and state.control.sets_sizes else 0
        if has and wanted and has != wanted:
            way = "gets more as it fills" if wanted > has else "gives as others fill"
            changed(name, has, wanted, f"its size was set by hand, and is given back: it {way}")
            ways.append(f"{name} goes from {format_size(has)} to {format_size(wanted)}")
    if ways:
        return f"; {', '.join(ways)}, as memory is handed over"
    if state.room is not None:
        return "; what others gave for it goes back to them"
    lends = [
        name
        for name in names
        if (one := readings.get(name)) and one.counted_bytes < CLEARLY_LESS * one.maxmemory_bytes
    ]
    if lends:
        others = f"what {', '.join(lends)} does not use of its size goes to whoever fills it"
        return f"; {others}, and the next plan decides"
    return "; nothing changes until the next plan"
