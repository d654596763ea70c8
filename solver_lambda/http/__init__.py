"""Guards everything that listens for HTTP by one front; it needs nothing but Python's library."""
