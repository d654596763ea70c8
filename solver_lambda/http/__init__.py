"""One guarded front for everything that listens for HTTP; nothing but Python's library."""
