"""The list of machines: what may be added, and the file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from engine.system import machines
from engine.system.machines import CannotChangeMachines, RemoteMachine, UnreadableMachines


def made(name: str = "gpus", destination: str = "me@gpus.lab", **others: str) -> RemoteMachine:
    return RemoteMachine(name=name, destination=destination, **others)


def test_machines_are_added_found_and_removed(traindeck_home: Path) -> None:
    assert machines.machines() == []
    other = made("cpus", "ssh://me@cpus:2222", command="cd /opt/x && ./traindeck")
    machines.add(made())
    machines.add(other)
    assert machines.machines() == [made(), other]
    assert machines.machine("cpus") == other
    assert machines.machine("me@else") == made("me@else", "me@else")
    mode = (traindeck_home / machines.FILE_NAME).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    with pytest.raises(CannotChangeMachines, match="already"):
        machines.add(made())
    assert machines.remove("gpus") == made()
    with pytest.raises(CannotChangeMachines, match="there are: cpus"):
        machines.remove("gpus")


@pytest.mark.parametrize("name", ["", "-x", "a b", "a:1", "12", "x" * 33, "a/b", "é"])
def test_a_name_can_stand_before_the_number_of_a_run(name: str) -> None:
    with pytest.raises(CannotChangeMachines, match="no name for a machine"):
        machines.add(made(name))


@pytest.mark.parametrize(
    "destination", ["", "-oProxyCommand=reboot", "a b", "a\nb", "a\x00", "x" * 501, "\ta"]
)
def test_a_destination_is_never_an_option_of_ssh(destination: str) -> None:
    with pytest.raises(CannotChangeMachines, match=r"destination for SSH|needs a destination"):
        machines.add(made(destination=destination))
    with pytest.raises(CannotChangeMachines):
        machines.machine(destination)


@pytest.mark.parametrize("command", ["", " ", "a\nb", "x" * 501])
def test_a_command_is_one_line(command: str) -> None:
    with pytest.raises(CannotChangeMachines, match="one line"):
        machines.add(made(command=command))


@pytest.mark.parametrize(
    "content",
    [
        "no toml",
        "machine = 3",
        '[[machine]]\nname = "a"\n',
        '[[machine]]\nname = "a"\ndestination = "-oProxyCommand=reboot"\n',
    ],
)
def test_a_damaged_list_is_a_sentence_and_is_not_overwritten(
    traindeck_home: Path, content: str
) -> None:
    traindeck_home.mkdir(mode=0o700)
    file = traindeck_home / machines.FILE_NAME
    file.write_text(content)
    for action in (machines.machines, lambda: machines.add(made())):
        with pytest.raises(UnreadableMachines, match="mend"):
            action()
    assert file.read_text() == content


@pytest.mark.parametrize(
    ("text", "found"),
    [("12", ("", "12")), ("gpus:12", ("gpus", "12")), ("ssh://a:22:7", ("ssh://a:22", "7"))],
)
def test_a_run_of_a_machine_has_both_names(text: str, found: tuple[str, str]) -> None:
    assert machines.run_reference(text) == found


def test_two_machines_of_one_name_are_refused(traindeck_home: Path) -> None:
    machines.add(made())
    machines.add(made("gpus2"))
    file = traindeck_home / machines.FILE_NAME
    file.write_text(file.read_text().replace("gpus2", "gpus"))
    with pytest.raises(UnreadableMachines, match="two machines have the name gpus"):
        machines.machines()
