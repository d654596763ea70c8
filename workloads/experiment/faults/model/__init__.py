"""The same in simulated time, without a server."""
