"""The attacks themselves, a file for each kind of door."""
