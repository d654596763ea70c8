"""From an observation to an adaptation plan."""
