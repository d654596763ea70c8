"""Finds where each part of SPREDS ends as servers, keys, samples and plans grow."""
