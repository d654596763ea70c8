"""The ways of dividing the memory that are compared."""

from __future__ import annotations

from workloads.experiment.thesis.ten_hours.play import Way

EQUAL = Way("equal", "equal, fixed sizes")
BEST = Way("best", "best fixed sizes")
ADAPTED = (
    Way("cloud_last", "cloud, the thesis' planning", "cloud", "last"),
    Way("embedded_last", "embedded, the thesis' planning", "embedded", "last"),
    Way("cloud_default", "cloud, default planning", "cloud", "competing"),
    Way("embedded_default", "embedded, default planning", "embedded", "competing"),
)
WAYS = (EQUAL, *ADAPTED, BEST)
QUICK_WAYS = (EQUAL, ADAPTED[1], BEST)
