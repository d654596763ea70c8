"""Who makes the plans."""
