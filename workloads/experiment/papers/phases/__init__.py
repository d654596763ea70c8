"""What comes before, during and after a change of a server's size, found in the series."""
