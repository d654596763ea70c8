"""What dividing memory gains on real servers, beside its simulation."""
