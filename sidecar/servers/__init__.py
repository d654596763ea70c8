"""Knows the Redis servers: what they report, and how their sizes are brought to a target."""
