"""The sidecar over a long time, under full load."""
