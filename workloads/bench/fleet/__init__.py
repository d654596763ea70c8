"""Plans of a fleet, made up, and how long questions about them take."""
