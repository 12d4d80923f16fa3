"""The page of `int8tune watch --serve`: what it answers, and to whom."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from int8tune.tuner.watching import server as serving_module
from int8tune.tuner.watching.server import LARGEST_REQUEST_BYTES, MOST_CLIENTS, OverviewServer, serving
from tests.support.program.cli_program import start
from tests.support.program.watched_campaigns import ended, overview, view

CHROMIUM = shutil.which("chromium")


@pytest.fixture
def server() -> Iterator[OverviewServer]:
    with serving(0) as running:
        running.show(overview())
        running.start()
        yield running


def asked(server: OverviewServer, path: str, method: str = "GET", host: str = "") -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


def raw(server: OverviewServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(request)
        received = b""
        while part := connection.recv(65536):
            received += part
    return received


def test_the_page_and_its_parts(server: OverviewServer) -> None:
    status, text, headers = asked(server, "/")
    assert status == 200
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    for words in ("c1", "running", "3 of 64 trials", "2.00 times faster", "quarantined", "cannot select"):
        assert words in text, words
    assert '<noscript><meta http-equiv="refresh"' in text
    assert asked(server, "/overview.html")[1] in text
    assert json.loads(asked(server, "/overview.json")[1])["campaigns"][0]["state"] == "running"
    assert asked(server, "/watch.css")[2]["Content-Type"].startswith("text/css")
    assert asked(server, "/watch.js")[2]["Content-Type"].startswith("text/javascript")
    assert "://" not in text + asked(server, "/watch.css")[1] + asked(server, "/watch.js")[1]


def test_it_answers_with_what_was_shown_last(server: OverviewServer) -> None:
    server.show(overview(view(ended("failed", error="no device"))))
    assert "no device" in asked(server, "/overview.html")[1]


@pytest.mark.parametrize("path", ["/etc/passwd", "/../../etc/passwd", "//x", "/?x", "/%2e%2e/", "/watch.css/", "*"])
def test_no_other_path_is_answered(server: OverviewServer, path: str) -> None:
    assert asked(server, path)[0] == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1:{port}."]
)
def test_requests_for_another_host_are_refused(server: OverviewServer, host: str) -> None:
    assert asked(server, "/overview.json", host=host.format(port=server.port))[0] == 421
    assert asked(server, "/", host=f"localhost:{server.port}")[0] == 200


def test_a_host_is_named_once(server: OverviewServer) -> None:
    own = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    for hosts in (b"", own + b"Host: evil.example\r\n"):
        assert raw(server, b"GET / HTTP/1.1\r\n" + hosts + b"\r\n").startswith(b"HTTP/1.0 421 ")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_nothing_but_get(server: OverviewServer, method: str) -> None:
    assert asked(server, "/", method)[0] == 501


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"x" * 20_000])
def test_what_is_no_request_ends(server: OverviewServer, request_: bytes) -> None:
    assert b" 200 " not in raw(server, request_[:LARGEST_REQUEST_BYTES])
    assert asked(server, "/")[0] == 200


def test_slow_clients_block_nobody(server: OverviewServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "PATIENCE_S", 0.5)
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(MOST_CLIENTS - 1)]
    for each in slow:
        each.sendall(b"GET / HT")
    began = time.monotonic()
    assert asked(server, "/")[0] == 200
    assert time.monotonic() - began < 3
    for each in slow:
        assert each.recv(10) == b""
        each.close()
    assert asked(server, "/")[0] == 200


def test_it_listens_on_loopback_alone(server: OverviewServer) -> None:
    with socket.socket() as other:
        other.settimeout(5)
        with pytest.raises(OSError, match="refused"):
            other.connect(("127.0.0.2", server.port))
    port = server.port
    server.close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_texts_of_records_are_no_tags(server: OverviewServer) -> None:
    server.show(overview(view(error="<script>alert(1)</script><img src=x>"), fault="<b>"))
    tags = Tags()
    tags.feed(asked(server, "/")[1].removeprefix("<!doctype html>"))
    assert tags.open == []
    assert not tags.seen & {"img", "b"}
    assert asked(server, "/")[1].count("<script") == 1


def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    process = start("watch", tmp_path, "--serve", 0)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=10)
        connection.request("GET", "/overview.json")
        fault = json.loads(connection.getresponse().read())["places"][0]["fault"]
        assert fault.startswith("no such results file: ")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
    finally:
        process.kill()
        process.communicate(timeout=20)


@pytest.mark.thorough
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_shows_it_and_what_comes_later(
    server: OverviewServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CHROMIUM is not None
    asked_for: list[str] = []
    monkeypatch.setattr(serving_module._Handler, "log_request", lambda own, *_: asked_for.append(own.path))
    words = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    words += ["--virtual-time-budget=20000", "--dump-dom", server.url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as browser:
        deadline = time.monotonic() + 60
        while "/" not in asked_for:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        server.show(overview(view(ended("failed", error="came later"))))
        shown, _ = browser.communicate(timeout=60)
    assert "came later" in shown
    assert ">Pause</button>" in shown
    assert {"/watch.css", "/watch.js", "/overview.html"} <= set(asked_for)
