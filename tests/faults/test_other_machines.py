"""A data folder that another machine or container uses, with real namespaces: another boot and
another name make another machine, another namespace of processes makes another container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine import client
from engine.messages.commands import Stop
from engine.processes.process import PROJECT
from tests.support.runs import is_training, spec, wait_for, wait_for_end, wait_until_gone
from tests.support.sentences import sentence

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("unshare"),
        reason="only root can make namespaces",
    ),
]

OTHER_MACHINE = """
mount --bind "$1/boot" /proc/sys/kernel/random/boot_id
hostname nodeB
shift
exec "$@"
"""


def seen_from(*namespaces: str) -> subprocess.CompletedProcess[str]:
    """What `runs` says in namespaces of its own."""
    command = [
        *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *namespaces),
        *(sys.executable, str(PROJECT / "main.py"), "runs"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, check=False)
    if "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("namespaces are not allowed here")
    return done


@pytest.mark.parametrize(
    "where", [pytest.param("a container", marks=pytest.mark.nightly), "another machine"]
)
def test_a_data_folder_with_a_run_that_trains_is_refused_elsewhere_until_it_has_ended(
    where: str, tmp_path: Path
) -> None:
    (tmp_path / "boot").write_text("another boot\n")
    machine = ("--uts", "--mount", "sh", "-ec", OTHER_MACHINE, "sh", str(tmp_path))
    there = () if where == "a container" else machine
    run_id = client.start(spec("probe_torch", "torch/single", epochs=1_000_000))
    wait_for(run_id, is_training)
    done = seen_from(*there)
    assert done.returncode == 2, done.stderr
    assert sentence("two-machines-or-containers-must-not-share") in done.stderr
    client.send(run_id, Stop())
    wait_until_gone(wait_for_end(run_id))
    assert client.get_run(run_id).state.is_over
