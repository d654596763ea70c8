"""Reads the node's configuration: one TOML file."""
