"""Solves the partition problem, and knows nothing of Redis or of observations."""
