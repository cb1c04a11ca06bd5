"""Against a real `sshd` on the loopback interface: what works, and every way in which it breaks."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import psutil
import pytest

from engine.environments import registry
from engine.interface.values import CreationPart, NotConnected
from engine.remote import ssh
from engine.remote.askpass import Ask
from engine.remote.connection import Connection, LinkState, Timing
from engine.system.machines import RemoteMachine
from tests.support import ssh_server
from tests.support.recorded_runs import RecordedRun
from tests.support.remote_followed import LONGEST, Followed
from tests.support.sentences import sentence
from tests.support.ssh_server import HOST, SshServer
from tests.support.uv_double import UvDouble

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(bool(ssh_server.MISSING), reason=ssh_server.MISSING),
]

QUICK = Timing(ping=0.1, silence=60.0, connect=60.0, first_wait=0.05, longest_wait=0.2, tick=0.02)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    server = SshServer(tmp_path / "ssh")
    monkeypatch.setenv(ssh.PROGRAM_VARIABLE, server.ssh)
    server.start()
    yield server
    server.stop()


Connect = Callable[..., tuple[Connection, Followed]]


@pytest.fixture
def connect(server: SshServer, traindeck_home: Path) -> Iterator[Connect]:
    with ExitStack() as stack:

        def begin(
            command: str = "", ask: Ask | None = None, timing: Timing = QUICK
        ) -> tuple[Connection, Followed]:
            followed = Followed()
            machine = RemoteMachine(
                name=HOST, destination=HOST, command=command or server.command(traindeck_home)
            )
            connection = Connection(machine, followed.take_status, ask, timing=timing)

            def end() -> None:
                connection.close()
                connection.join(seconds=LONGEST)

            stack.callback(end)
            connection.start()
            return connection, followed

        yield begin


@pytest.fixture
def run() -> Iterator[RecordedRun]:
    run = RecordedRun()
    with closing(run.store):
        run.begin()
        yield run


def test_a_run_is_followed_through_the_death_of_the_server(
    server: SshServer, connect: Connect, run: RecordedRun
) -> None:
    connection, followed = connect()
    connection.follow(run.id, ["train/loss"], followed.take)
    run.add_points("train/loss", range(10))
    followed.wait(lambda: len(followed.steps.get("train/loss", ())) == 10)
    server.stop()
    run.add_points("train/loss", range(10, 20))
    followed.wait(lambda: any("no SSH server" in each.sentence for each in followed.statuses))
    server.start()
    followed.wait(lambda: len(followed.steps["train/loss"]) >= 20)
    assert followed.steps["train/loss"] == list(range(20))


def test_nothing_stays_there_when_the_connection_is_closed(
    server: SshServer, connect: Connect
) -> None:
    connection, followed = connect()
    followed.wait_for_state(LinkState.CONNECTED)
    there = server.processes()
    assert any(map(_serves, there))
    connection.close()
    connection.join(seconds=LONGEST)
    _, left = psutil.wait_procs(there, LONGEST)
    assert left == []


def _serves(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # sshd has one for the time before the login
        return "serve" in process.cmdline()
    return False


@pytest.mark.nightly
def test_nothing_stays_there_when_ssh_is_killed(server: SshServer, connect: Connect) -> None:
    connection, followed = connect(timing=QUICK._replace(first_wait=3600.0, longest_wait=3600.0))
    followed.wait_for_state(LinkState.CONNECTED)
    there = server.processes()
    psutil.Process(connection.pid).kill()
    _, left = psutil.wait_procs(there, LONGEST)
    assert left == []


@pytest.mark.nightly
def test_a_server_that_hangs_is_noticed_and_a_new_connection_made(
    server: SshServer, connect: Connect
) -> None:
    _, followed = connect(timing=QUICK._replace(silence=3.0))
    followed.wait_for_state(LinkState.CONNECTED)
    halted = server.processes()
    for process in halted:
        process.send_signal(signal.SIGSTOP)
    waiting = followed.wait_for_state(LinkState.WAITING)
    assert sentence("nothing-came-from-there", seconds=3) in waiting.sentence
    followed.wait_for_state(LinkState.CONNECTED, after=followed.statuses.index(waiting))
    for process in halted:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def test_a_host_key_that_changes_is_never_accepted(server: SshServer, connect: Connect) -> None:
    connection, followed = connect()
    followed.wait_for_state(LinkState.CONNECTED)
    server.stop()
    server.new_host_key()
    server.start()
    failed = followed.wait_for_state(LinkState.FAILED)
    assert sentence("is-not-one-that-is-known") in failed.sentence
    server.trust()
    connection.retry()
    followed.wait_for_state(LinkState.CONNECTED, after=followed.statuses.index(failed))


def test_a_host_that_is_not_known_yet_is_not_trusted(server: SshServer, connect: Connect) -> None:
    (server.folder / "known").write_text("")
    _, followed = connect()
    assert "not known yet" in followed.wait_for_state(LinkState.FAILED).sentence


def test_a_key_that_is_not_let_in_is_said(server: SshServer, connect: Connect) -> None:
    (server.folder / "authorized").write_text("")
    _, followed = connect()
    assert "does not let you in" in followed.wait_for_state(LinkState.FAILED).sentence


def test_traindeck_that_is_not_there_is_said(connect: Connect) -> None:
    _, followed = connect("no-such-program")
    assert "was not found on gpus" in followed.wait_for_state(LinkState.FAILED).sentence


@pytest.mark.nightly
def test_a_noisy_login_is_no_obstacle(
    server: SshServer, connect: Connect, traindeck_home: Path
) -> None:
    _, followed = connect(f"echo Welcome; echo 'to gpus'; {server.command(traindeck_home)}")
    followed.wait_for_state(LinkState.CONNECTED)


@pytest.mark.nightly
def test_a_passphrase_is_asked_for_in_the_window_and_kept_nowhere(
    server: SshServer, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.new_user_key(passphrase="open sesame")
    questions: list[str] = []
    answers: list[str | None] = [None, "wrong", "open sesame"]

    def ask(question: str) -> str | None:
        questions.append(question)
        return answers.pop(0)

    with caplog.at_level(logging.DEBUG):
        connection, followed = connect(ask=ask)
        told = 0
        for _ in range(2):
            followed.wait_for_state(LinkState.FAILED, after=told)
            told = len(followed.statuses)  # nothing more is told before it is tried again
            connection.retry()
        followed.wait_for_state(LinkState.CONNECTED)
    asking = [each for each in followed.statuses if each.state is LinkState.ASKING]
    assert len(asking) == 3
    assert "Enter passphrase for key" in asking[0].sentence
    assert questions == [each.sentence for each in asking]
    assert "sesame" not in caplog.text
    assert not any("sesame" in word for word in psutil.Process(connection.pid).cmdline())
    assert "open sesame" not in str(psutil.Process(connection.pid).environ())


class Cable:
    """A proxy in between, which can be pulled: nothing passes then, and nobody is told."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._is_whole = threading.Event()
        self._is_whole.set()
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def pull(self) -> None:
        """Let nothing pass."""
        self._is_whole.clear()

    def plug_in(self) -> None:
        """Let all pass again."""
        self._is_whole.set()

    def close(self) -> None:
        """End all connections."""
        self._is_whole.set()
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._ends += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(2**16):
                self._is_whole.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return  # one of both ends was closed


@pytest.mark.nightly
def test_a_cable_that_is_pulled_is_noticed_and_nothing_is_lost(
    server: SshServer, connect: Connect, run: RecordedRun
) -> None:
    with closing(Cable(server.port)) as cable:
        server.to_port = cable.port
        server.write_client()
        connection, followed = connect(timing=QUICK._replace(silence=3.0))
        connection.follow(run.id, ["train/loss"], followed.take)
        run.add_points("train/loss", range(5))
        followed.wait(lambda: len(followed.steps.get("train/loss", ())) == 5)
        cable.pull()
        run.add_points("train/loss", range(5, 9))
        followed.wait_for_state(LinkState.WAITING)
        cable.plug_in()
        followed.wait(lambda: len(followed.steps["train/loss"]) >= 9)
        assert followed.steps["train/loss"] == list(range(9))
        connection.close()
        connection.join(seconds=LONGEST)


@pytest.mark.nightly
def test_an_environment_is_made_there_and_one_whose_connection_breaks_is_deleted(
    server: SshServer, connect: Connect, traindeck_home: Path, tmp_path: Path
) -> None:
    uv = UvDouble(tmp_path / "uv")
    command = f"env PATH={uv.path} {server.command(traindeck_home)}"
    connection, followed = connect(command)
    followed.wait_for_state(LinkState.CONNECTED)
    engine, never = connection.engine, threading.Event()
    made = engine.make_environment("mine", ["torch==2.13.0"], "torch", lambda part: None, never)
    (listed,) = engine.list_environments()
    assert (listed.python, listed.default_for) == (made.python, ("torch",))
    uv.does("print('half', flush=True); time.sleep(3600)")
    outputs: list[str] = []
    is_half, failed = threading.Event(), threading.Event()

    def tell(part: CreationPart) -> None:
        outputs.append(part.output)
        if "half" in "".join(outputs):
            is_half.set()

    def make() -> None:
        with pytest.raises(NotConnected):
            engine.make_environment("half", ["torch==2.13.0"], "", tell, never)
        failed.set()

    threading.Thread(target=make, daemon=True).start()
    assert is_half.wait(LONGEST)
    there = server.processes()
    assert any("uv" in " ".join(each.cmdline()) for each in there)
    psutil.Process(connection.pid).kill()
    assert failed.wait(LONGEST)
    _, left = psutil.wait_procs(there, LONGEST)
    assert left == []
    assert {each.name for each in registry.folder().iterdir()} == {"mine", "mine.log"}
