"""Teams' own settings: weight, backend latency, minimum."""
