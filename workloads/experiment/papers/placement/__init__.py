"""Where the solver stands: beside the node, in its region, in another one."""
