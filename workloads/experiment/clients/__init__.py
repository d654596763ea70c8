"""Experiments with clients that others wrote, and with traces in their own time."""
