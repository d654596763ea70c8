"""Targets, attackers and what a row is."""
