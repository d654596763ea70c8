"""Solvers of the partition problem, which know nothing of Redis or of observations."""
