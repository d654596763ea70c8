"""The verbs of `spreds`."""
