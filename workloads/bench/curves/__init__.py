"""How fast and how exact the curves are: the sidecar's engine, and ``spreds mrc``."""
