"""A small web server on loopback with the manners, good and bad, of servers that files are downloaded from."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """The files that are served, and the requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.etag: str | None = '"1"'
        self.changed: str | None = None  # Last-Modified
        self.cut_after: int | None = None  # bytes of a body, then the connection ends
        self.silent = False  # then it does not end, until it is enough
        self.enough = threading.Event()
        self.knows_ranges = True
        self.heeds_if_range = True
        self.begins_later = 0  # bytes after the requested position
        self.says_length = True
        self.redirects = False
        self.asked: list[tuple[str, str | None]] = []  # path, Range
        self.url = ""


@contextmanager
def serving() -> Iterator[Site]:
    """A site, until the block ends."""
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _answer(self, site)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # all answers have ended when the server has
    site.url = f"http://127.0.0.1:{server.server_port}/sets"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(handler: BaseHTTPRequestHandler, site: Site) -> None:
    asked = handler.headers.get("Range")
    site.asked.append((handler.path, asked))
    if site.redirects and handler.path.startswith("/sets/"):
        handler.send_response(302)
        handler.send_header("Location", handler.path.replace("/sets/", "/mirror/sets/"))
        handler.end_headers()
        return
    body = site.files.get(handler.path.removeprefix("/mirror").removeprefix("/sets/"))
    if body is None:
        handler.send_error(404)
        return
    begin = _begin(handler, site, asked)
    if begin is not None and begin >= len(body):
        handler.send_response(416)
        handler.send_header("Content-Range", f"bytes */{len(body)}")
        handler.end_headers()
        return
    handler.send_response(200 if begin is None else 206)
    if begin is not None:
        handler.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
    for name, value in (("ETag", site.etag), ("Last-Modified", site.changed)):
        if value is not None:
            handler.send_header(name, value)
    rest = body[begin or 0 :]
    if site.says_length:
        handler.send_header("Content-Length", str(len(rest)))
    handler.end_headers()
    handler.wfile.write(rest[: site.cut_after])
    if site.silent:
        site.enough.wait(5)


def _begin(handler: BaseHTTPRequestHandler, site: Site, asked: str | None) -> int | None:
    """From where on a part is to be sent; None for all of it."""
    if asked is None or not site.knows_ranges:
        return None
    known = handler.headers.get("If-Range", "")
    if site.heeds_if_range and (not known or known.startswith("W/") or known not in (site.etag, site.changed)):
        return None
    return int(asked.removeprefix("bytes=").removesuffix("-")) + site.begins_later
