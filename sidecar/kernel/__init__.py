"""The compiled part of `spreds mrc`: optional, plain C, called by ctypes."""
