"""Holds ``spreds run``: the sidecar itself, and what it reports to teams."""
