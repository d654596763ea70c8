"""Holds the verbs of ``spreds``."""
