"""The process beside the Redis servers: hears their samples, asks for plans, applies them."""
