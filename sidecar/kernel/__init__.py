"""Holds the compiled part of `spreds mrc` and of the monitors: plain C, called by ctypes."""
