"""Reads formats of traces, one a module, as ``sidecar.traces.registry`` asks for them."""
