"""Takes samples, from the wire to batches."""
