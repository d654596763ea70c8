"""Plays the faults in simulated time, without a server."""
