"""From samples to an estimate: SHARDS, calibration, anchoring, backend latency."""
