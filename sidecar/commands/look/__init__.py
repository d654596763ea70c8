"""Holds ``spreds look``: what it asks, works out and says."""
