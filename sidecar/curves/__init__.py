"""Turns samples into an estimate: SHARDS, calibration, anchoring, backend latency."""
