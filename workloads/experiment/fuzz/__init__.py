"""Malformed input for all that reads input from outside."""
