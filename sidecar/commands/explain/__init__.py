"""Holds ``spreds explain``: what it asks, works out and says."""
