"""Decides over sizes: the mode, operators' orders, and what became of what plans promised."""
