"""Makes an adaptation plan from an observation."""
