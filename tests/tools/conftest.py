"""The double of the NVIDIA driver, for the tests of the programs that record it."""

from __future__ import annotations

from tests.engine.telemetry.conftest import fake_nvml, two_gpus

__all__ = ["fake_nvml", "two_gpus"]
