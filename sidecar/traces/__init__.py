"""Readers of cache traces."""
