"""Plans: who makes them, how they arrive, and whether they may be carried out."""
