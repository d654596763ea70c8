"""What the controller costs a year: `python -m infra.costs`."""
