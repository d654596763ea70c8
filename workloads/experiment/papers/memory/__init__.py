"""Memory as a knob of a function: its time and price."""
