"""What a run says of the versions that it trains with."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import replaced_spec
from engine.spec.worker_python import environment_notices
from tests.engine.environments.conftest import Install, install, site
from tests.support.old_runs import NEWEST, restore_run
from tests.support.sentences import sentence

__all__ = ["install", "site"]

OWN = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))


def test_another_version_than_the_tested_one_is_told(site: Path, install: Install) -> None:
    install("torch", "2.10.9")
    folder = site.parents[2]
    spec = replace(OWN, interpreter=str(folder / "bin" / "python"))
    assert environment_notices(folder, spec, "torch", 1) == [
        sentence("run-uses-environment-pytorch-is-here", folder=folder)
    ]
    assert environment_notices(folder, spec, "tf", 1) == []
    assert environment_notices(folder, OWN, "torch", 1) == []


def test_an_attempt_with_other_versions_says_so(site: Path, install: Install) -> None:
    install("torch", "2.13.0")
    run = restore_run(NEWEST)
    spec = replace(OWN, interpreter=str(site.parents[2] / "bin" / "python"))
    text = (run / "spec.toml").read_text().partition("[environment]")[0]
    versions = '[environment.packages]\ntorch = "2.12.9"\nnumpy = "2.1.0"\n'
    (run / "spec.toml").write_text(f'{text}[environment]\npython = "3.12.4"\n{versions}')
    with replaced_spec(run, spec, 2):
        [told] = environment_notices(run, spec, "torch", 2)
    assert sentence("other-versions-than-one-before-torch") in told
    assert environment_notices(run, spec, "torch", 3) == []
