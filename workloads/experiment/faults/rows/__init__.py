"""What befalls it, a row each."""
