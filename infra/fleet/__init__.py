"""Questions over the plans of all nodes."""
