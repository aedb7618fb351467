"""What the monitoring addresses of servers say about syncing."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gateway.store.monitors import syncs
from tests.harness import free_port


@contextmanager
def saying(answer: object) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_the_worst_of_all_servers_counts() -> None:
    with saying({"config": {"sync_always": True}}) as good, saying({"config": {"sync_interval": 120}}) as bad:
        assert await syncs([good]) == "always"
        assert await syncs([good, bad]) == "not always"


async def test_who_does_not_say_is_unknown() -> None:
    assert await syncs([]) == "unknown"
    assert await syncs([f"http://127.0.0.1:{free_port()}"]) == "unknown"
    with saying({"config": None}) as odd:
        assert await syncs([odd]) == "unknown"
    with saying(b"[" * 100_000) as deep, saying(b"no JSON") as text:
        assert await syncs([deep, text]) == "unknown"


async def test_who_speaks_no_http_is_unknown() -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail\r\n")
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        assert await syncs([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"]) == "unknown"
