"""Decides which sizes the servers may have and when, within the budget of their memory."""
