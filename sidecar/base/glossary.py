"""Explains the words that commands and pages use, for those who never heard them."""

from __future__ import annotations

WORDS = {
    "access time": (
        "what a read takes on average, from the cache if it is there and from the backend if not; "
        "with the misses that a move of memory causes counted, plans make it as small as they can; "
        "the thesis calls it EAT"
    ),
    "backend latency": "what it costs to get an object where it comes from, after a miss; as "
    "measured, from a miss to its fill, clients' queues included",
    "bound": "what its team or the operator wants of a server: at most so much access time, at "
    "most so many misses a second",
    "budget": "the memory that all servers may have together: maxmemory sums to that at most, but "
    "for what `status` then names",
    "carried out": "the servers were given the plan's sizes; while memory is handed over, being "
    "carried out",
    "chance": "what other sizes seem to gain only because a few other keys happened to be read; a "
    "plan moves memory for more than that",
    "counts from": "of a plan: the size that the plan before it wanted, which a server may still "
    "be on its way to",
    "curve": (
        "the miss-ratio curve: which share of the reads a cache of each size would miss, measured "
        "from a small sample of the keys without trying sizes out"
    ),
    "cycle": "from one observation to the plan that answers it; its number is a time in seconds",
    "expected": "what the curve says of the size that is planned, beside what is measured",
    "guess": "what is said of more memory while a curve is still learnt: it may be far off",
    "handed over": "a server that is to grow gets memory as it fills it, and others keep it till "
    "then",
    "hit ratio": "the share of the reads that found their key in the cache",
    "maxmemory": "the setting of Redis that says how much memory keys may take before it evicts",
    "observation": "what the sidecar knows of all servers at one time, from which a plan is made",
    "one more MiB": "by what it would shorten the mean access time of all servers, beyond the "
    "planned size: where that is most, memory goes first",
    "outcome": "of a plan: what was measured after it, against what the sizes before would have "
    "brought and what it predicted",
    "pause": "nothing is set, whatever happens, until its end or `spreds resume`",
    "plan": "a size for each server, with a reason for each, that answers one observation; its "
    "number is that of the cycle",
    "planned": "the size that a server is to have, by the last plan that was carried out or by an "
    "order; until it has it, memory is handed over",
    "policy": "which keys a full server evicts (maxmemory-policy); with noeviction it evicts none, "
    "so its size is never changed",
    "predicted": "what the curves say; the outcome says afterwards how far that was right",
    "recommend": "the mode in which plans are shown and not carried out",
    "resident": "what the process takes of the machine's memory, which can be more than maxmemory",
    "room": "memory that other servers give up for one that must have more than was planned; it "
    "goes back when it is needed no longer",
    "sampler": "the part in each server, patch or module, that tells the sidecar of a few keys; "
    "where there is none, the sidecar looks at keys itself",
    "samples": "reads and writes of the few keys in a thousand that are followed",
    "too early to tell": "of an outcome: so few reads came since the plan that chance may have "
    "made the difference",
    "weight": "how much a read of this server counts beside a read of the others",
    "what counts": "weights and latencies, by which plans compare; where one changes, milliseconds "
    "mean something else from then on",
    "window": (
        "of hits and reads, the time between two looks at the servers' counters: a sixtieth of a "
        "cycle, and at least a second; of a curve or plan, the time that an observation covers"
    ),
}


def glossary_lines(used_in: str | None = None) -> list[str]:
    """Return a line for each word; only for those that are used in a text, if there is one."""
    text = None if used_in is None else used_in.lower()
    return [f"{word}: {meaning}" for word, meaning in WORDS.items() if text is None or word in text]
