"""Reads and keeps teams' own settings: weight, backend latency, minimum."""
