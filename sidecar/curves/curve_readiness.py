"""Says why too little is known of a server to give it another size."""

from __future__ import annotations

from sidecar.curves.policies import SIMULATED_POLICIES, STACK_POLICIES
from sidecar.curves.served_reads import ServedReads
from sidecar.curves.warm_up import WarmUp
from sidecar.servers.connection.server_reading import ServerReading
from solver_lambda.planning.quiet_servers import QUIET_READS

FEWEST_SAMPLES = 100
# Of its keys: who is written so much in a window, and not read, does not sleep.
WRITTEN_SHARE = 0.01


def no_curve_reason(reading: ServerReading) -> str | None:
    """Say why no curve tells what another size would do, however many samples come, for people;
    ``None`` if one can."""
    if fixed := reading.keep_reason():
        return fixed
    if reading.maxmemory_policy not in STACK_POLICIES + SIMULATED_POLICIES:
        return f"no_model: for maxmemory-policy {reading.maxmemory_policy}"
    return None


def unknown_reason(
    reading: ServerReading, warm_up: WarmUp, *, samples: int, served: ServedReads
) -> str | None:
    """Say why too little is known; ``None`` if enough is. ``samples``: under the present policy;
    ``served``: in the window."""
    if never := no_curve_reason(reading):
        return never
    # A server that is hardly read loses memory slowly, whatever is known of it: see the plan's
    # rules. What has faded since it was known is known well enough for that.
    reads = served.reads
    if warm_up.is_on and reads >= QUIET_READS:
        return (
            f"warming_up: it is still being learnt: {warm_up.unseen_share:.0%} of the last reads "
            "were of keys from before the sampling"
        )
    if samples < FEWEST_SAMPLES and reads >= QUIET_READS:
        return f"few_samples: {samples} reads sampled so far, of {FEWEST_SAMPLES} that it takes"
    if reads < QUIET_READS and served.written >= max(QUIET_READS, WRITTEN_SHARE * reading.keys):
        return (
            f"few_samples: {reads} reads beside {served.written} writes: what its keys are worth "
            "is not known"
        )
    return None
