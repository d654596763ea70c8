"""Brings notifications of plans from the cloud."""
