"""Python's own HTTP client through a gateway: `http_client.py <host:port>`; silent when all is well.

The origin answers with what it was sent: the method in X-Method, the body as the body.
"""

import http.client
import sys

LONG = b"x" * 1_000_000


def ask(connection, method, body=None, **options):
    connection.request(method, "/echo", body=body, **options)
    response = connection.getresponse()
    return response, response.read()


def main() -> None:
    connection = http.client.HTTPConnection(sys.argv[1], timeout=8)
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]:
        response, text = ask(connection, method, b"hello")
        assert (response.status, text) == (200, b"hello"), (method, response.status, text)
        assert response.getheader("X-Method") == method
    response, text = ask(connection, "HEAD")
    assert (response.status, text) == (200, b"")
    response, text = ask(connection, "POST", iter([b"one ", b"two"]), encode_chunked=True)
    assert text == b"one two", text
    response, text = ask(connection, "POST", LONG)
    assert text == LONG, len(text)
    # All of it over one connection, as long as nobody asks for its end.
    socket = connection.sock
    assert socket is not None
    ask(connection, "GET", headers={"Connection": "close"})
    assert connection.sock is None


main()
