"""What the papers around the thesis measured, in the form that it takes here."""
