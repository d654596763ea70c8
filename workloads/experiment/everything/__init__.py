"""``experiment all``: every study, and one report of them."""
