"""What people and their tools see of a running sidecar, and how they give orders."""
