"""Faults that befall a node, and what must hold all the same."""
