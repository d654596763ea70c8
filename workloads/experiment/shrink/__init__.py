"""What clients feel of a server that shrinks."""
