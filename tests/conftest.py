"""For all tests: no property depends on how fast the machine is just now."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("gate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gate")
