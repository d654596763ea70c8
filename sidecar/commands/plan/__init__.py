"""Holds ``spreds plan``: what it asks, works out and says."""
