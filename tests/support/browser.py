"""A headless Chromium, spoken to over a pipe in its DevTools protocol: no driver and no library is needed."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Chromium reads commands from descriptor 3 and answers on 4.
_ON_3_AND_4 = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_PATIENCE = 60.0  # seconds for one answer


def find_browser() -> str | None:
    """Where a Chromium is, if there is one."""
    return os.environ.get("LEVELPROX_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """One browser with one tab.

    Attributes
    ----------
    events : list of dict
        Messages of the tab since it was last opened: requests, console messages, exceptions.
    """

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        fds = (theirs_in, theirs_out)
        command = [sys.executable, "-c", _ON_3_AND_4, *map(str, fds), program, *_FLAGS, f"--user-data-dir={profile}"]
        self._log = (profile.parent / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            [*command, "about:blank"], pass_fds=fds, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in, self._rest, self._last = ours_out, ours_in, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(method)
            if answer.get("id") == self._last:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _next(self, waiting_for: str) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self._in, 1 << 20) if ready else b""
            assert piece, f"the browser did not answer {waiting_for}: {Path(self._log.name).read_text()[-2000:]}"
            self._rest += piece
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, path: Path, width: int = 1200, height: int = 900, dark: bool = False, scripts: bool = True) -> None:
        """Open a file on a screen of this size; a narrow one is a phone."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.ask("Emulation.setEmulatedMedia", media="", features=[scheme, still])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events = []
        self.ask("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next("a page"))

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until what was scrolled or resized is on the screen, where clicks are aimed at."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def press(self, key: str, code: int) -> None:
        """Press a key on the element with the focus."""
        for kind in ("rawKeyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Move the pointer, press or release its button."""
        button = {"button": "none"} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def click(self, x: float, y: float) -> None:
        """Click at a place of the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def screenshot(self, to: Path, *, whole: bool = True) -> None:
        """A screenshot of the whole page, or of the window."""
        picture = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        to.write_bytes(base64.b64decode(picture["data"]))

    def complaints(self) -> list[str]:
        """What was logged as an error or a warning, thrown, or requested from the network, besides the file itself."""
        self.run("0")  # brings what is under way
        found = []
        for event in self.events:
            told = event.get("params", {})
            if event["method"] == "Log.entryAdded" and told["entry"]["level"] != "verbose":
                found.append(told["entry"]["text"])
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(told["exceptionDetails"]))
            if event["method"] == "Runtime.consoleAPICalled":
                found.append(json.dumps(told["args"]))
            if event["method"] == "Network.requestWillBeSent" and told["type"] != "Document":
                found.append(told["request"]["url"])
        return found

    def close(self) -> None:
        """End it."""
        self._session = None
        os.write(self._out, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._log.close()
