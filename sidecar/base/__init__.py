"""Holds what any room of the sidecar may use."""
