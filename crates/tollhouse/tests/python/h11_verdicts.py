"""Asks h11 about raw requests: one in hexadecimal a line of the file named, one verdict a line out.

The first line of the output is h11's version. The verdicts are those of the corpus of tollhouse-http.
"""

import sys

import h11


def escape(data: bytes) -> str:
    return "".join(
        "\\\\" if byte == 0x5C else chr(byte) if 0x20 <= byte <= 0x7E else f"\\x{byte:02x}"
        for byte in data
    )


def body(request: h11.Request) -> str:
    headers = dict(request.headers)
    if b"transfer-encoding" in headers:
        return "chunked"
    length = int(headers.get(b"content-length", b"0"))
    return str(length) if length else "none"


def verdict(data: bytes) -> str:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    request = None
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.EndOfMessage):
                return f"accept {escape(request.method)} {escape(request.target)} {body(request)}"
            elif event is h11.NEED_DATA:
                return "refuse 408"
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return "refuse 400"
    except h11.RemoteProtocolError as error:
        return f"refuse {error.error_status_hint}"


def main() -> None:
    print(h11.__version__)
    with open(sys.argv[1], encoding="ascii") as cases:
        for line in cases:
            print(verdict(bytes.fromhex(line.strip())))


main()
