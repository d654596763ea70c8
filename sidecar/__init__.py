"""Runs beside the Redis servers: hears their samples, asks for plans, applies them."""

import os

# For small matrices numpy's library gains nothing from more threads: they wait busily, on CPUs that
# the servers need.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
