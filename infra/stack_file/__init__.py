"""The file of an installation, `stack.toml`: nodes, cells, names, and whether AWS takes as many."""
