"""Shows people and their tools a running sidecar, and takes their orders."""
