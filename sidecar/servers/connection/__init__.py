"""Asks one server, over one guarded connection, and bounds what it answers."""
