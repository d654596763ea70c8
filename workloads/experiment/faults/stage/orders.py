"""The files by which a stage and the launcher of its sidecar speak with each other."""

# The environment's variable with their folder.
ORDERS = "SPREDS_FAULTS"
# Number and shares of the plan that is wanted; what is played on the next one.
PLAN, TRICK = "plan.json", "trick"
# Lines of what was done; where the process ends.
STEPS, SWITCH = "steps", "switch"
# Seconds by which its clock is off.
CLOCK = "clock"
