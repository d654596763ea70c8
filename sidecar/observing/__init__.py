"""Makes the observation of each cycle: when, of what the servers say, and with which minima."""
