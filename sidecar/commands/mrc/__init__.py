"""Holds ``spreds mrc``: what it asks, works out and says."""
