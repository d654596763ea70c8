"""Holds the documents that go between sidecar and function; but for the curve they need no
numpy."""
