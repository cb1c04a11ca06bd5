"""The files of the membership, and what a process without a cluster is told."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from engine.cluster import lifecycle, membership
from engine.cluster.membership import Cluster, ClusterError
from engine.processes.machine import Machine, this_machine

DESK = Cluster(head="10.0.0.1:6379", name="desk", ip="10.0.0.2", member="1b2c", ports="2000-2100")
TOKEN = "a-long-token"


def test_what_was_saved_is_read_and_only_its_owner_may_read_it(traindeck_home: Path) -> None:
    assert membership.cluster() is None
    membership.save(DESK, TOKEN)
    found = membership.cluster()
    assert found is not None
    assert replace(found, host="", machine_id="") == DESK
    assert membership.token() == TOKEN
    for name in ("cluster.toml", "cluster-token"):
        assert stat.S_IMODE((traindeck_home / name).stat().st_mode) == 0o600
    membership.forget()
    assert membership.cluster() is None


def test_the_membership_of_a_machine_that_shares_the_data_folder_is_not_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    membership.save(DESK, TOKEN)
    assert membership.shared_with() == ""
    monkeypatch.setattr(membership, "this_machine", lambda: Machine("other", "1b2c"))
    monkeypatch.setattr(membership, "require_ray", lambda: None)
    assert membership.cluster() is None
    assert membership.shared_with() == this_machine().host
    for action in (
        lambda: lifecycle.start("", "", None, ""),
        lambda: lifecycle.join("10.0.0.1:1", "", "", "", ""),
        lifecycle.leave,
    ):
        with pytest.raises(ClusterError, match=r"is shared with .* set TRAINDECK_HOME"):
            action()
    assert membership.token() == TOKEN


def test_the_token_is_in_no_other_file_and_in_no_variable(traindeck_home: Path) -> None:
    membership.save(DESK, TOKEN)
    holding = [
        each.name
        for each in traindeck_home.rglob("*")
        if each.is_file() and TOKEN in each.read_text()
    ]
    assert holding == ["cluster-token"]
    assert TOKEN not in " ".join(membership.environment().values())


def test_a_token_that_others_may_read_is_not_used(traindeck_home: Path) -> None:
    membership.save(DESK, TOKEN)
    membership.token_file().chmod(0o644)
    with pytest.raises(PermissionError, match="can be read by others"):
        membership.token()


@pytest.mark.parametrize("content", ["head = 3", "[", 'head="x"\nname="a"\nip="b"', "\x00"])
def test_a_damaged_file_is_named_and_what_to_do(traindeck_home: Path, content: str) -> None:
    membership.save(DESK, TOKEN)
    (traindeck_home / membership.FILE_NAME).write_text(content)
    with pytest.raises(ClusterError, match=r"cluster\.toml, cannot be read .* cluster leave"):
        membership.cluster()


def test_every_process_that_talks_to_ray_authenticates_and_reports_nothing() -> None:
    membership.save(DESK, TOKEN)
    found = membership.environment()
    assert found["RAY_ADDRESS"] == "10.0.0.1:6379"
    assert found["RAY_AUTH_MODE"] == "token"
    assert found["RAY_AUTH_TOKEN_PATH"] == str(membership.token_file())
    assert found["RAY_USAGE_STATS_ENABLED"] == "0"


def test_without_a_cluster_ray_has_no_address() -> None:
    assert "RAY_ADDRESS" not in membership.environment()


@pytest.mark.parametrize("name", ["a", "node-7.lab", "A_1", "x" * 32])
def test_names_of_machines(name: str) -> None:
    assert membership.name_problem(name) == ""


@pytest.mark.parametrize("name", ["", "-a", "a.", "a/b", "a b", "ä", "x" * 33])
def test_names_that_no_machine_can_have(name: str) -> None:
    assert "is no name for a machine" in membership.name_problem(name)


def test_without_ray_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "ray_version", lambda: "")
    with pytest.raises(ClusterError, match=r"pip install -e '\.\[cluster\]'"):
        membership.members()


def test_other_systems_than_linux_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "ON_LINUX", False)
    with pytest.raises(ClusterError, match="needs Linux"):
        membership.members()


def test_a_machine_without_a_cluster_says_how_to_begin_one() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with pytest.raises(ClusterError, match=r"is in no cluster: begin one with .* cluster start"):
        membership.members()


@pytest.mark.usefixtures("processes")
def test_reading_the_membership_imports_no_ray() -> None:
    code = (
        "import sys; from engine.cluster import membership; membership.cluster();"
        " membership.environment(); sys.exit('ray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0


def test_ray_leaves_no_variable_that_templates_would_inherit(
    traindeck_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    membership.save(DESK, TOKEN)

    def init(**_: object) -> None:
        monkeypatch.setenv("PYTHONBREAKPOINT", "ray.util.rpdb._driver_set_trace")

    ray = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr(membership, "ray_module", lambda: ray)
    monkeypatch.setattr(membership, "is_reachable", lambda *_: True)
    monkeypatch.setattr(membership, "_before", {"environment": {}})
    membership.connect()
    assert "PYTHONBREAKPOINT" not in os.environ
    monkeypatch.setattr(membership, "_before", {"environment": {"PYTHONBREAKPOINT": "mine"}})
    membership.connect()
    assert os.environ["PYTHONBREAKPOINT"] == "mine"
