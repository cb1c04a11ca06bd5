"""A real `sshd` on the loopback interface: its own keys, configuration and port, in one folder."""

from __future__ import annotations

import contextlib
import getpass
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

from engine.processes.process import PROJECT
from engine.system.paths import HOME_VARIABLE
from engine.templates.differences import read_at_import
from engine.templates.protocol import FOLDER_VARIABLE
from tests.support.runs import processes_below

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
MISSING = (
    "no sshd or ssh is installed (Debian: apt-get install openssh-server)"
    if SSHD is None or shutil.which("ssh") is None
    else ""
)
"""Why there is none here; empty: there is one."""

HOST = "gpus"
"""Its name in the client's configuration."""

START_SECONDS = 60.0
_PRIVILEGE_SEPARATION = Path("/run/sshd")


class SshServer:
    """Starts with `start`; `close` ends all that it has started."""

    def __init__(self, folder: Path, address: str = "127.0.0.1") -> None:
        """Make keys and configurations in `folder`. `address`: where it listens."""
        self.folder = folder
        self.address = address
        self.port = _free_port()
        self.to_port = self.port
        """The port that the client connects to; that of a proxy in between, if there is one."""

        self._sshd: subprocess.Popen[bytes] | None = None
        self.prefix: tuple[str, ...] = ()
        """The words before `sshd`, such as those that enter a network namespace."""

        folder.mkdir(mode=0o700, exist_ok=True)
        self.new_host_key()
        self.new_user_key()
        self.trust()

    @property
    def ssh(self) -> str:
        """The value of `TRAINDECK_SSH` with which a client reaches this server."""
        return shlex.join(["ssh", "-F", str(self.folder / "client")])

    def command(self, home: Path) -> str:
        """Return what starts Traindeck there, with the data folder `home`."""
        # The runs of later tests would start cold by a template with other variables.
        variables = read_at_import(os.environ)
        variables |= {HOME_VARIABLE: str(home), "PYTHONPATH": str(PROJECT)}
        # A template of its own would stay for a while after the test.
        variables |= {name: os.environ[name] for name in (FOLDER_VARIABLE,) if name in os.environ}
        words = [f"{name}={value}" for name, value in variables.items()]
        return shlex.join(["env", *words, sys.executable, str(PROJECT / "main.py")])

    def new_host_key(self) -> None:
        """Replace the host key, as if the machine was installed anew."""
        _make_key(self.folder / "host")

    def new_user_key(self, passphrase: str = "") -> None:
        """Replace the user's key; the server lets it in."""
        _make_key(self.folder / "user", passphrase)
        shutil.copy(self.folder / "user.pub", self.folder / "authorized")

    def trust(self) -> None:
        """Make the host key known to the client, and write its configuration."""
        key = (self.folder / "host.pub").read_text().split()[:2]
        (self.folder / "known").write_text(f"{HOST} {' '.join(key)}\n")
        self.write_client()

    def write_client(self) -> None:
        """Write the client's configuration."""
        lines = (
            f"Host {HOST}",
            f"HostName {self.address}",
            f"HostKeyAlias {HOST}",
            f"Port {self.to_port}",
            f"User {getpass.getuser()}",
            f"IdentityFile {self.folder / 'user'}",
            "IdentitiesOnly yes",
            "IdentityAgent none",
            f"UserKnownHostsFile {self.folder / 'known'}",
            "GlobalKnownHostsFile /dev/null",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
        )
        (self.folder / "client").write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        lines = (
            f"Port {self.port}",
            f"ListenAddress {self.address}",
            f"HostKey {self.folder / 'host'}",
            f"AuthorizedKeysFile {self.folder / 'authorized'}",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PrintMotd no",
            "UseDNS no",
            "MaxStartups 100",
        )
        config = self.folder / "server"
        config.write_text("\n".join(lines) + "\n")
        if os.geteuid() == 0:
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        log = self.folder / "log"
        assert SSHD is not None
        with log.open("ab") as output:
            self._sshd = subprocess.Popen(
                [*self.prefix, SSHD, "-D", "-e", "-f", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._listens():
            assert self._sshd.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the connections, each before those that it has started."""
        assert self._sshd is not None
        return processes_below(self._sshd.pid)

    def stop(self) -> None:
        """Kill the server and its connections, as if the machine had lost its power."""
        if self._sshd is None:
            return
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            found = [psutil.Process(self._sshd.pid), *self.processes()]
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._sshd.wait()
        psutil.wait_procs(found[1:], START_SECONDS)
        self._sshd = None

    def _listens(self) -> bool:
        if self.prefix:  # another network
            return b"Server listening" in (self.folder / "log").read_bytes()
        with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), 1):
            return True
        return False


def _make_key(path: Path, passphrase: str = "") -> None:
    for each in (path, path.with_suffix(".pub")):
        each.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
