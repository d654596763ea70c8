"""Attacks on a whole sidecar with real servers: a table."""
