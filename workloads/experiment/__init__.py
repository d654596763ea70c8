"""Experiments: whether the model holds on real servers."""
