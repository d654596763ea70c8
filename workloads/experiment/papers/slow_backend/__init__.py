"""A front with a cache before a backend that answers one after the other, and its users."""
