"""No test reaches beyond this machine."""

import socket

import pytest


def test_only_the_loopback_address_can_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
    with socket.socket() as client, pytest.raises(RuntimeError, match="Network is disabled"):
        client.connect(("192.0.2.1", 80))  # an address reserved for documentation
