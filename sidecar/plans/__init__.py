"""Whether plans may be carried out."""
