"""The stacks that are deployed: buckets, topics, the solver, alarms, and who may do what."""
