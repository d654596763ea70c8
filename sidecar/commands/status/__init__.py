"""Holds ``spreds status``: what it asks, works out and says."""
