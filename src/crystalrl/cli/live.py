"""A page that follows a run: a small server for this machine only, which tells the page when results have changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rich.console import Console

from crystalrl.report.html import Page, messages

HOST = "127.0.0.1"
"""No other machine can connect."""
EVENTS = "/events"
PAUSE = 1.0
"""Seconds between two checks of the files."""
Render = Callable[[str], str]
"""From the address of the updates to the page."""


def serve(render: Render, folders: Sequence[Path], console: Console) -> None:
    """Serve a page until Ctrl-C. What cannot be shown at the start is an error; later, the page says so and goes on."""
    render(EVENTS)
    with server(render, folders) as made:
        console.print(f"Live page: http://{HOST}:{made.server_port}/ (Ctrl-C ends it)", highlight=False)
        made.serve_forever()


def server(render: Render, folders: Sequence[Path], pause: float = PAUSE) -> ThreadingHTTPServer:
    """A server on a free port. The page is rendered again for each request."""
    made = ThreadingHTTPServer((HOST, 0), partial(Handler, render, lambda: changes(folders, pause)))
    made.daemon_threads = True
    return made


class Handler(BaseHTTPRequestHandler):
    """Answers requests for the page and for its updates."""

    def __init__(self, render: Render, told: Callable[[], Iterator[bytes]], *request: Any) -> None:
        self.render, self.told = render, told
        super().__init__(*request)  # it answers the request

    def do_GET(self) -> None:
        if not local(self.headers.get("Host", "")):
            self.send_error(403)
        elif self.path == "/":
            self._answer(self._page().encode())
        elif self.path == EVENTS:
            self._tell()
        else:
            self.send_error(404)

    def _page(self) -> str:
        try:
            return self.render(EVENTS)
        except (
            ValueError,
            OSError,
        ) as error:  # such as a folder that was removed, or a file that is just being written
            return Page().document("live page", [messages([str(error)])], EVENTS)

    def _answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with suppress(OSError):  # the page was closed
            self.wfile.write(content)

    def _tell(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for message in self.told():
                self.wfile.write(message)
                self.wfile.flush()
        except OSError:
            return  # the page was closed

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing."""


def local(host: str) -> bool:
    """Whether a request was for this machine by its own name: a page elsewhere cannot pretend that it is."""
    return host.rpartition(":")[0] in (HOST, "localhost")


def changes(folders: Sequence[Path], pause: float) -> Iterator[bytes]:
    """Server-sent events: a message whenever the results have changed, otherwise a comment that keeps the line open."""
    before = stamp(folders)
    while True:
        time.sleep(pause)
        now = stamp(folders)
        yield b": nothing new\n\n" if now == before else b"data: changed\n\n"
        before = now


def stamp(folders: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of the stored files below the folders, without pages."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            if path.suffix in (".parquet", ".npz", ".json", ".safetensors", ".toml") and path.is_file():
                status = path.stat()
                found.append((str(path), status.st_size, status.st_mtime_ns))
    return tuple(found)
