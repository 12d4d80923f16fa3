"""Shows an overview to browsers of this machine: read-only, on loopback alone, from memory alone.

What is asked for is one of a few names; nothing that a client sends reaches the file system. A page of elsewhere can't
read the answers by a name of its own that leads here (DNS rebinding): only requests for this address are answered.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from int8tune.tuner.watching.overview import Overview, overview_fields
from int8tune.tuner.watching.page import CSS, SCRIPT, body, page

ADDRESS = "127.0.0.1"
LARGEST_REQUEST_BYTES = 8192
# A client has so long to ask, and so long to take each answer.
PATIENCE_S = 3.0
MOST_CLIENTS = 16
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Connection": "close",
}
_HTML, _TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"


class OverviewServer:
    """Answers on threads of its own with what it was given last."""

    def __init__(self, port: int = 0) -> None:
        """Listen on loopback; on any free port if it is 0.

        Raises:
            OSError: the port is taken, or may not be used.
        """
        self._server = _Server(port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}/"

    def show(self, overview: Overview) -> None:
        """Answer with this from now on."""
        whole = json.dumps(overview_fields(overview), indent=2, allow_nan=False)
        self._server.answers = {
            "/": (_HTML, page(overview).encode()),
            "/overview.html": (_HTML, body(overview).encode()),
            "/overview.json": ("application/json", whole.encode()),
            "/watch.css": ("text/css; charset=utf-8", CSS.encode()),
            "/watch.js": ("text/javascript; charset=utf-8", SCRIPT.encode()),
        }

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop listening; whoever still waits for an answer gets none."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(PATIENCE_S)
        self._server.server_close()


class _Server(HTTPServer):
    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.answers: dict[str, tuple[str, bytes]] = {}
        self._clients = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__((ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)  # without asking a name server for a name
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = ADDRESS, int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread; who comes while there are too many is turned away."""
        if not self._clients.acquire(blocking=False):
            self.shutdown_request(request)
            return
        threading.Thread(target=self._answer, args=(request, client_address), daemon=True).start()

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            with contextlib.suppress(OSError, ValueError):
                self.finish_request(request, client_address)
            self.shutdown_request(request)
        finally:
            self._clients.release()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "int8tune", ""

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BytesIO(_head_of(self.connection))
        self.connection.settimeout(PATIENCE_S)

    def do_GET(self) -> None:
        found = self.server.answers.get(self.path)
        if self.headers.get_all("Host", []) not in self._own_hosts():
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, _TEXT, b"asked for another host\n")
        elif found is None:
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, b"not found\n")
        else:
            self._answer(HTTPStatus.OK, *found)

    def send_error(self, code: int, *_words: Any) -> None:
        """Anything else than GET, and what is no HTTP."""
        self._answer(HTTPStatus(code), _TEXT, f"{HTTPStatus(code).phrase.lower()}\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _own_hosts(self) -> list[list[str]]:
        return [[f"{name}:{self.server.server_port}"] for name in (ADDRESS, "localhost")]

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.close_connection = True
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _head_of(connection: socket.socket) -> bytes:
    """A request's lines, or what came of them in time. A body is not waited for."""
    deadline, head = time.monotonic() + PATIENCE_S, b""
    while b"\r\n\r\n" not in head and len(head) < LARGEST_REQUEST_BYTES:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        received = connection.recv(LARGEST_REQUEST_BYTES - len(head))
        if not received:
            break
        head += received
    return head


@contextmanager
def serving(port: int) -> Iterator[OverviewServer]:
    """A server until the end; it answers once it was shown something and started.

    Raises:
        OSError: the port is taken, or may not be used.
    """
    server = OverviewServer(port)
    try:
        yield server
    finally:
        server.close()
