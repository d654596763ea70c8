"""Samples, from the wire to batches."""
