"""Holds the controllers, who make the plans."""
