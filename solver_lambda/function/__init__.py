"""Runs the planner in the cloud."""
