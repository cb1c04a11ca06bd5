"""A double of the NVIDIA driver for the telemetry tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_nvml import FakeNvml


@pytest.fixture
def fake_nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A driver without GPUs that every process started by this test meets.

    A missing C compiler is an error, not a skip: without it nothing here would be tested.
    """
    fake = FakeNvml(tmp_path)
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)
    return fake
