"""How notifications of plans come from the cloud."""
