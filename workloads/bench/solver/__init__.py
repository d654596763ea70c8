"""How fast the solvers are and how far from the optimum, and what the function costs."""
