"""Keeps what the sidecar remembers, and makes sure that it is the only one."""
