"""What dividing memory gains over leaving it alone, in simulated time."""
