"""What the sidecar remembers, and that it is the only one."""
