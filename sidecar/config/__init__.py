"""The node's configuration: one TOML file."""
