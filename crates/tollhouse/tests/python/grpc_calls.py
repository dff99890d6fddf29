"""gRPC C-core: `grpc_calls.py serve` echoes messages and prints its address first; `grpc_calls.py call <host:port>
<method> <calls>` makes short calls, many at a time, over one connection; silent when none of them fails.

Messages are opaque bytes.
"""

import sys
import threading
from concurrent import futures

import grpc

MESSAGE = b"m" * 100
AT_ONCE = 100


class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda message, _: message)


def serve() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4), handlers=[Echo()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


def call(address: str, method: str, calls: int) -> None:
    places = threading.Semaphore(AT_ONCE)
    failures = []

    def finished(answer) -> None:
        if answer.code() != grpc.StatusCode.OK:
            failures.append(f"{answer.code()}: {answer.details()}")
        places.release()

    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary(method)
        for _ in range(calls):
            places.acquire()
            ask.future(MESSAGE if "Echo" in method else b"", timeout=30).add_done_callback(finished)
        for _ in range(AT_ONCE):
            places.acquire()
    assert not failures, f"{len(failures)} of {calls} calls failed: {failures[0]}"


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        call(sys.argv[2], sys.argv[3], int(sys.argv[4]))
