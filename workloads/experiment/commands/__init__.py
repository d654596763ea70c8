"""Random commands for a server under sanitizers, in step with a stock one."""
