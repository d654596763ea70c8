"""Benchmarks: two things side by side in one run."""
