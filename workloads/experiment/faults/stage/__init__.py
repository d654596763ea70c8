"""A node that faults befall: real servers, the real sidecar, and who watches them."""
