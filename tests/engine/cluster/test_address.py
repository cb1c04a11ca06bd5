"""Addresses of a cluster: what a user writes, and which address is our own."""

from __future__ import annotations

import socket

import pytest

from engine.cluster import address
from engine.cluster.address import Address, UnusableAddress
from tests.support.sentences import sentence


@pytest.mark.parametrize("text", ["10.0.0.1:6379", "gpu-3.lab:65535"])
def test_an_address_is_a_host_and_a_port(text: str) -> None:
    assert str(address.parse_address(text)) == text


@pytest.mark.parametrize("text", ["", "10.0.0.1", "10.0.0.1:0", "a:65536", "-x:1", "a b:1", "::1"])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnusableAddress, match=sentence("is-no-address-of-cluster").pattern):
        address.parse_address(text)


def test_the_address_of_this_machine_depends_on_where_it_leads() -> None:
    assert address.own_address_towards("127.0.0.1") == "127.0.0.1"


def test_without_a_route_it_is_the_loopback_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoRoute(socket.socket):
        def connect(self, address: object) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(address.socket, "socket", NoRoute)
    assert address.default_address() == "127.0.0.1"


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UnusableAddress, match=sentence("this-machine-has-no-address").pattern):
        address.own_address("203.0.113.7")
    with pytest.raises(UnusableAddress, match="is no IPv4 address"):
        address.own_address("desk")


def test_every_loopback_address_is_our_own() -> None:
    assert address.own_address("127.0.0.2") == "127.0.0.2"
    assert address.interface_of("127.0.0.2") == address.interface_of("127.0.0.1") != ""


def test_a_port_where_something_listens_is_reachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = Address("127.0.0.1", listener.getsockname()[1])
        assert address.is_reachable(there, 60)
    assert not address.is_reachable(there, 60)


@pytest.mark.parametrize("text", ["1024-1063", "20000-20199", "60000-65535"])
def test_a_range_of_ports(text: str) -> None:
    assert address.port_range(text) == text


@pytest.mark.parametrize("text", ["", "20000", "20000-20010", "2100-2000", "1-100", "65500-65600"])
def test_a_range_that_is_none_or_too_small_is_refused(text: str) -> None:
    with pytest.raises(UnusableAddress, match="is no range of ports"):
        address.port_range(text)


def test_a_port_that_is_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UnusableAddress, match=f"The port {port} cannot be used here"):
            address.free_port(port)
    assert address.free_port(0) > 0
