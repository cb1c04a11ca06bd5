"""What is said of the repository of a run, and that no repository can make a run wait."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from engine.facts import git_command
from engine.facts import git_state as module
from engine.facts.git_state import GitState, git_state, remote_address
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes")

SECONDS = 120.0
"""For git to answer, which runs at the lowest priority."""


def git(folder: Path, *arguments: str) -> None:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b"}
    identity |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"]
    subprocess.run(
        [*command, *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        env=os.environ | identity,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "vision"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "train.py").write_text("lr = 1\nsteps = 2\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Mixup only after warm-up")
    return folder


def state_of(folder: Path, *secrets: str) -> GitState:
    found = git_state(folder, secrets, seconds=SECONDS)
    assert found is not None
    return found.state


def test_a_clean_repository(repository: Path) -> None:
    git(repository, "remote", "add", "backup", "https://b.example/x")
    git(repository, "remote", "add", "origin", "https://ada:pw@a.example/ada/vision.git")
    (repository / "sub").mkdir()
    state = state_of(repository / "sub")
    assert len(state.commit) == 40
    assert (state.branch, state.message) == ("main", "Mixup only after warm-up")
    assert abs(state.committed - time.time()) < 86_400
    assert state.remote == "https://a.example/ada/vision.git"
    assert (state.changed_files, state.untracked_files, state.is_dirty) == (0, 0, False)
    assert Path(state.folder).samefile(repository)
    assert state.problem == ""


def test_changes_are_counted_and_kept(repository: Path) -> None:
    (repository / "train.py").write_text("lr = 2\nsteps = 2\nmore = 'topsecretvalue'\n")
    (repository / "new file.py").write_text("x = 1\n")
    found = git_state(repository, ["topsecretvalue"], seconds=SECONDS)
    assert found is not None
    state, diff = found
    assert (state.changed, state.changed_files) == (("train.py",), 1)
    assert (state.untracked, state.untracked_files) == (("new file.py",), 1)
    assert (state.added, state.removed) == (2, 1)
    assert "+lr = 2" in diff
    assert "-lr = 1" in diff
    assert "topsecretvalue" not in diff
    assert state.diff_bytes == len(diff.encode())
    assert not state.diff_is_cut


def test_a_long_diff_is_cut_and_that_is_said(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_DIFF", 500)
    (repository / "train.py").write_text("line\n" * 100_000)
    found = git_state(repository, seconds=SECONDS)
    assert found is not None
    assert found.state.diff_is_cut
    assert len(found.diff) == 500
    assert found.state.added == 100_000


def test_binary_files_and_files_of_secrets_are_named_only(repository: Path) -> None:
    (repository / "weights.bin").write_bytes(b"\0\1\2")
    (repository / "config").mkdir()
    (repository / "config" / ".env").write_text("PASSWORD=1\n")
    (repository / "secrets.py").write_text("def code(): ...\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "more")
    (repository / "weights.bin").write_bytes(b"\0\3\4")
    (repository / "config" / ".env").write_text("PASSWORD=hunter2\n")
    (repository / "secrets.py").write_text("def code(): pass\n")
    found = git_state(repository, seconds=SECONDS)
    assert found is not None
    assert found.state.changed_files == 3
    assert found.state.binary_files == 1
    assert found.state.diff_leaves_out == ("config/.env",)
    assert "hunter2" not in found.diff
    assert "def code(): pass" in found.diff
    assert "Binary files" in found.diff


def test_a_submodule_is_told_by_its_commits(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "one")
    git(repository, "submodule", "add", "-q", str(other), "lib")
    git(repository, "commit", "-qm", "lib")
    git(repository / "lib", "commit", "-q", "--allow-empty", "-m", "two")
    found = git_state(repository, seconds=SECONDS)
    assert found is not None
    assert found.state.changed == ("lib",)
    assert "+Subproject commit" in found.diff


def test_a_detached_head_has_no_branch(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    state = state_of(repository)
    assert state.branch == ""
    assert state.commit


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("")
    state = state_of(tmp_path)
    assert (state.commit, state.branch, state.untracked) == ("", "main", ("a.py",))
    assert state.problem == sentence("repository-has-no-commit-yet")


def test_a_bare_repository(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare")
    assert "bare repository" in state_of(tmp_path).problem


def test_no_repository(tmp_path: Path) -> None:
    assert git_state(tmp_path, seconds=SECONDS) is None


def test_no_git(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(repository, seconds=SECONDS) is None


def test_a_repository_of_another_user_is_not_read(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setattr(git_command, "_KEPT_VARIABLES", ("GIT_CONFIG", "GIT_TEST_"))
    state = state_of(repository)
    assert "safe.directory" in state.problem
    assert state.commit == ""


def test_variables_of_another_repository_are_not_followed(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "none"))
    assert state_of(repository).branch == "main"


def test_programs_of_the_repository_do_not_run(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o700)
    for name in ("core.fsmonitor", "diff.external", "core.pager", "diff.x.textconv"):
        git(repository, "config", name, str(program))
    (repository / ".gitattributes").write_text("*.py diff=x\n")
    (repository / "train.py").write_text("lr = 3\n")
    assert "+lr = 3" in getattr(git_state(repository, seconds=SECONDS), "diff", "")
    assert not mark.exists()


def test_no_filter_of_the_repository_runs_and_its_files_are_named(
    repository: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    (repository / "data").mkdir()
    (repository / ".gitattributes").write_text("*.bin filter=my.filter\n*.txt filter=other\n")
    (repository / "data" / "a.bin").write_text("small\n")
    (repository / "note.txt").write_text("one\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "filtered")
    for action in ("clean", "smudge", "process"):
        git(repository, "config", f"filter.my.filter.{action}", f"sh -c 'touch {mark}; cat'")
    git(repository, "config", "filter.my.filter.required", "true")
    (repository / "data" / "a.bin").write_text("long\n")
    (repository / "train.py").write_text("lr = 3\n")
    (repository / "note.txt").write_text("two\n")
    found = git_state(repository / "data", seconds=SECONDS)
    assert found is not None
    assert not mark.exists()
    assert found.state.changed == ("note.txt", "train.py"), "a filter without a program is none"
    assert found.state.problem == sentence("files-under-filter-of-git-such")
    assert "+lr = 3" in found.diff
    assert "long" not in found.diff
    assert (found.state.added, found.state.removed) == (2, 3)


def test_a_filter_that_cannot_be_switched_off_leaves_the_commit(
    repository: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    git(repository, "config", "filter.a=b.clean", f"sh -c 'touch {mark}; cat'")
    (repository / ".gitattributes").write_text("*.py filter=a=b\n")
    (repository / "train.py").write_text("lr = 3\n")
    state = state_of(repository)
    assert state.message == "Mixup only after warm-up"
    assert sentence("filter-named-which-cannot-be-switched") in state.problem
    assert not mark.exists()


def slow_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A git whose status never ends; the rest is real."""
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout
    program = folder / "bin" / "git"
    program.parent.mkdir()
    body = 'case "$*" in *status*) sleep 1000;; *) exec {real} "$@";; esac\n'
    program.write_text("#!/bin/sh\n" + body.replace("{real}", real.strip()))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)


def test_a_git_that_hangs_is_ended_and_the_commit_is_known(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_git(tmp_path, monkeypatch)
    found = git_state(repository, seconds=5.0)
    assert found is not None
    assert len(found.state.commit) == 40
    assert found.state.changed_files == -1
    assert "`git status`" in found.state.problem
    assert "5 s" in found.state.problem


def test_the_end_of_the_run_ends_git(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_git(tmp_path, monkeypatch)
    stop = threading.Event()
    stop.set()
    found = git_state(repository, stop=stop, seconds=SECONDS)
    assert found is not None
    assert "run ended" in found.state.problem


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:secret@github.com/ada/vision.git", "https://github.com/ada/vision.git"),
        ("https://token@host/x?access_token=abc", "https://host/x"),
        ("git@github.com:ada/vision.git", "github.com:ada/vision.git"),
        ("ssh://git@host:22/x.git", "ssh://host:22/x.git"),
        ("/home/ada/vision", "/home/ada/vision"),
        ("https://[broken", ""),
    ],
)
def test_a_remote_has_no_credentials(url: str, shown: str) -> None:
    assert remote_address(url) == shown
