"""Reads cache traces."""
