"""The planner makes an adaptation plan from an observation of a node's servers.

It knows numpy and the standard library only, because the function's cold start is its imports.
"""
