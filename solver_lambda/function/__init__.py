"""How the planner runs in the cloud."""
