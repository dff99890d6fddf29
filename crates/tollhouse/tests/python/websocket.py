"""The `websockets` package on the two sides of a gateway.

websocket.py serve          echoes; listens on a port of the kernel's choice and prints its address
websocket.py ask <address>  talks to such a server through a gateway; silent when all is well
"""

import sys

from websockets.sync.client import connect
from websockets.sync.server import serve

LONG = "x" * 500_000


def echo(connection) -> None:
    for message in connection:
        connection.send(message)


def run_server() -> None:
    with serve(echo, "127.0.0.1", 0, subprotocols=["chat"]) as server:
        host, port = server.socket.getsockname()
        print(f"{host}:{port}", flush=True)
        server.serve_forever()


def run_client(address: str) -> None:
    with connect(f"ws://{address}/chat", subprotocols=["chat"]) as connection:
        assert connection.subprotocol == "chat"
        for message in ["hello", b"\x00\xff", "", LONG, "good-bye"]:
            connection.send(message)
            assert connection.recv(timeout=8) == message
        assert connection.ping().wait(8)
    assert connection.close_code == 1000, connection.close_code


if sys.argv[1] == "serve":
    run_server()
else:
    run_client(sys.argv[2])
