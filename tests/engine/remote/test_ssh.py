"""How `ssh` is called, and the sentence for each of its failures."""

from __future__ import annotations

import pytest

from engine.remote import ssh
from engine.remote.frames import MAJOR, Hello
from engine.remote.ssh import Asking, explain, explain_protocol, serve_command
from engine.system.machines import RemoteMachine
from tests.support.sentences import sentence

MACHINE = RemoteMachine(name="gpus", destination="me@gpus.lab")


def test_it_never_asks_nor_accepts_a_key_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ssh.PROGRAM_VARIABLE, raising=False)
    quiet, asking = serve_command(MACHINE), serve_command(MACHINE, Asking.WINDOW)
    assert quiet[0] == asking[0] == "ssh"
    assert "BatchMode=yes" in quiet
    assert "StrictHostKeyChecking=yes" in asking
    assert "StrictHostKeyChecking=yes" in quiet
    assert "StrictHostKeyChecking=ask" in serve_command(MACHINE, Asking.TERMINAL)
    assert quiet[-3:] == ["me@gpus.lab", "--", "traindeck serve NONCE"]


def test_another_ssh_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ssh.PROGRAM_VARIABLE, "ssh -F 'my config'")
    assert serve_command(MACHINE)[:3] == ["ssh", "-F", "my config"]
    monkeypatch.setenv(ssh.PROGRAM_VARIABLE, " ")
    assert serve_command(MACHINE)[0] == "ssh"


def test_an_open_quotation_is_part_of_a_name_that_no_program_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ssh.PROGRAM_VARIABLE, "ssh -F 'my config")
    assert serve_command(MACHINE)[0] == "ssh -F 'my config"


CHANGED = """@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
Host key for [gpus.lab]:22 has changed and you have requested strict checking.
Host key verification failed.
"""


PROXY_ENDED = (
    "kex_exchange_identification: Connection closed by remote host\r\n"
    "Connection closed by UNKNOWN port 65535\r\n"
)


@pytest.mark.parametrize(
    ("code", "errors", "words", "is_lasting", "wants_answer"),
    [
        (255, CHANGED, "ssh-keygen -R", True, False),
        (
            255,
            "No ED25519 host key is known for gpus.lab and you have requested strict checking.\n"
            "Host key verification failed.\n",
            sentence("not-known-yet-connect-once"),
            True,
            False,
        ),
        (255, "ssh: Could not resolve hostname gpus.lab: Name or", "is online", False, False),
        (255, "ssh: connect to host x port 22: Connection refused", "no SSH server", False, False),
        (255, "ssh: connect to host x port 22: Connection timed out", "off", False, False),
        (255, "ssh: connect to host x port 22: No route to host", "VPN", False, False),
        (
            255,
            "me@gpus.lab: Permission denied (publickey,password).",
            sentence("does-not-let-you-in-permission"),
            True,
            True,
        ),
        (255, "x: line 3: Bad configuration option: foo", "configuration of SSH", True, False),
        (255, "Connection closed by 10.0.0.1 port 22", "closed the connection", False, False),
        (
            255,
            f"Welcome!\r\ncannot find the jump host\n{PROXY_ENDED}",
            sentence("proxyjump-in-configuration-of-ssh"),
            False,
            False,
        ),
        (255, PROXY_ENDED, "has ended without a word.", False, False),
        (
            255,
            f"me@jump: Permission denied (publickey).\r\n{PROXY_ENDED}",
            sentence("jump-host-does-not-let-you-in"),
            True,
            True,
        ),
        (255, "a new sentence\n", sentence("could-not-connect-to-gpus-new"), False, False),
        (255, "", sentence("connection-to-gpus-broke"), False, False),
        (127, "bash: traindeck: command not found", "a wheel file, as here", True, False),
        (126, "", "a wheel file, as here", True, False),
        (1, "traindeck: Command not found.\n", "a wheel file, as here", True, False),
        (0, "Welcome.\n", "swallows the output", True, False),
        (2, "There is no command 'serve' (choose from", "too old", True, False),
        (
            1,
            "ImportError: no numpy\n",
            sentence("does-not-start-traindeck-importerror"),
            True,
            False,
        ),
        (1, "[Errno 28] No space left on device", "free some space there", False, False),
    ],
)
def test_every_failure_has_its_sentence(
    code: int, errors: str, words: str, is_lasting: bool, wants_answer: bool
) -> None:
    found = explain(MACHINE, code, errors, greeted=False)
    assert words in found.sentence
    assert "gpus" in found.sentence or "SSH" in found.sentence
    assert (found.is_lasting, found.wants_answer) == (is_lasting, wants_answer)


def test_a_connection_that_breaks_later_is_tried_again() -> None:
    for code, errors in ((255, "Timeout, server gpus not responding.\n"), (0, ""), (None, "")):
        found = explain(MACHINE, code, errors, why="it was silent", greeted=True)
        assert found.sentence
        assert not found.is_lasting


def test_a_program_there_that_was_named_wrongly_is_said() -> None:
    named = RemoteMachine(name="gpus", destination="gpus", command="/opt/traindeck")
    assert (
        sentence("named-program-was-not-found") in explain(named, 127, "", greeted=False).sentence
    )


def test_control_characters_of_the_other_side_are_not_shown() -> None:
    said = explain(MACHINE, 1, "\x1b]0;owned\x07oh\x1b[2J", greeted=False).sentence
    assert said.isprintable()


@pytest.mark.parametrize(("major", "older"), [(MAJOR + 1, "this machine"), (MAJOR - 1, "gpus")])
def test_another_protocol_says_which_side_is_older(major: int, older: str) -> None:
    found = explain_protocol(MACHINE, Hello(major, 0, "3.0.0"))
    assert f"update the one on {older}" in found.sentence
    assert found.is_lasting


def test_a_login_that_asks_is_named() -> None:
    said = "last login: today\nWhich environment? "
    assert "Which environment?" in ssh.explain_silence(MACHINE, 60.0, said).sentence
    assert "swallows" in ssh.explain_silence(MACHINE, 60.0, "\n").sentence
    given_up = explain(MACHINE, None, said, why="it took longer than 30 s", greeted=False)
    assert "Which environment?" in given_up.sentence
