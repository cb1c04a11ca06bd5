"""Addresses of machines in a cluster: where the head listens, and which address is our own."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import NamedTuple

import psutil

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 6379
"""Ray's own default for the head."""

FEWEST_PORTS = 40
"""Of a range: six for Ray's node, and one for each of its workers."""

_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]{0,252}):(?P<port>\d{1,5})", re.ASCII)
_ANY_ROUTED = "198.51.100.1"
"""An address for documents (RFC 5737), of which only the route is asked: nothing is sent."""


class UnusableAddress(Exception):
    """An address that cannot be used; the text is a sentence."""


class Address(NamedTuple):
    """Where the head listens."""

    host: str
    """An IPv4 address, or a name that the system resolves."""

    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address that `HOST:PORT` means. Raises UnusableAddress."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 2**16:
        raise UnusableAddress(
            f"{text!r} is no address of a cluster: it is HOST:PORT with a name or an IPv4 address, "
            "as the first machine has printed it."
        )
    return Address(found["host"], int(found["port"]))


def resolve(address: Address) -> Address:
    """Return `address` with an IPv4 address as its host. Raises UnusableAddress."""
    try:
        found = socket.getaddrinfo(address.host, address.port, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise UnusableAddress(
            f"The name {address.host} has no IPv4 address here ({error.strerror or error}): write "
            "the address itself."
        ) from None
    return Address(str(found[0][4][0]), address.port)


def own_address_towards(host: str) -> str:
    """Return the IPv4 address with which this machine reaches `host`. Raises UnusableAddress."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        try:
            route.connect((host, 9))  # UDP: it only chooses the route
            return str(route.getsockname()[0])
        except OSError as error:
            raise UnusableAddress(
                f"This machine has no route to {host} ({error.strerror or error})."
            ) from None


def default_address() -> str:
    """Return the IPv4 address of the interface with the default route; 127.0.0.1 without one."""
    try:
        return own_address_towards(_ANY_ROUTED)
    except UnusableAddress:
        return LOOPBACK


def own_address(text: str) -> str:
    """Return `text` if it is an IPv4 address of this machine. Raises UnusableAddress."""
    try:
        is_ours = is_loopback(text) or bool(interface_of(text))
    except ValueError:
        raise UnusableAddress(
            f"{text!r} is no IPv4 address: name one of this machine, such as {default_address()}."
        ) from None
    if not is_ours:
        raise UnusableAddress(
            f"This machine has no address {text}; it has {', '.join(_own_addresses())}."
        )
    return text


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an IPv4 address. Raises ValueError if it is none."""
    return ipaddress.IPv4Address(address).is_loopback


def interface_of(address: str) -> str:
    """Return the name of the network interface with this IPv4 address; empty if there is none.

    It differs from machine to machine. All of 127.0.0.0/8 is on the loopback interface.
    """
    wanted = LOOPBACK if is_loopback(address) else address
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.family == socket.AF_INET and each.address == wanted for each in addresses):
            return str(name)
    return ""


def is_reachable(address: Address, seconds: float) -> bool:
    """Whether something accepts connections at `address` within so many seconds."""
    try:
        with socket.create_connection(address, timeout=seconds):
            return True
    except OSError:
        return False


def free_port(port: int) -> int:
    """Return `port` if nothing listens there, or a free one for 0. Raises UnusableAddress."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            raise UnusableAddress(
                f"The port {port} cannot be used here ({error.strerror or error}): choose another "
                "one with --port, such as 6380, or 0 for any."
            ) from None
        return int(listener.getsockname()[1])


def port_range(text: str) -> str:
    """Return `text` if it is a range of ports, such as 20000-20199. Raises UnusableAddress."""
    first, _, last = text.partition("-")
    is_range = first.isdecimal() and last.isdecimal() and text.isascii()
    if is_range and 1024 <= int(first) <= int(last) - FEWEST_PORTS + 1 <= 2**16 - FEWEST_PORTS:
        return text
    raise UnusableAddress(
        f"{text!r} is no range of ports for a machine: it is FIRST-LAST with at least "
        f"{FEWEST_PORTS} ports from 1024 to 65535, such as 20000-20199."
    )


def _own_addresses() -> list[str]:
    return [
        str(each.address)
        for addresses in psutil.net_if_addrs().values()
        for each in addresses
        if each.family == socket.AF_INET
    ]
