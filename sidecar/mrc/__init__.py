"""Makes the miss-ratio curve of a whole trace, for `spreds mrc`."""
