"""The planner: from an observation of a node's servers to an adaptation plan.

Knows numpy and the standard library only, because the function's cold start is its imports.
"""
