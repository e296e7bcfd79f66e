# SPDX-License-Identifier: GPL-2.0-only
"""Chromium without a window, spoken to through a pipe in its DevTools protocol."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path

#: dygraphs as Debian 13 builds it says so of every chart that shows a part of its data
_OF_DYGRAPHS = re.compile(r"\d+ points out of [XY] bounds:")
PATIENCE_S = 120    # of a machine with other work; nothing takes as long by itself


class Browser:
    """One browser with one page. What its console says is in `said`: errors, warnings and exceptions."""

    def __init__(self) -> None:
        self.profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        theirs_in, self.out = os.pipe()
        self.into, theirs_out = os.pipe()
        # the browser reads from 3 and writes to 4; these are free in bash, and nobody's here
        high_in, high_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 30) for end in (theirs_in, theirs_out))
        plumbing = f'exec 3<&{high_in} 4>&{high_out} {high_in}<&- {high_out}>&-; exec "$@"'
        self.process = subprocess.Popen(
            ["bash", "-c", plumbing, "browser", "chromium", "--headless=new",
             "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(high_in, high_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        for descriptor in (theirs_in, theirs_out, high_in, high_out):
            os.close(descriptor)
        self.said: list[str] = []
        self.asked: list[str] = []          # addresses that pages loaded
        self.loaded = False
        self._buffer, self._number, self._session = b"", 0, None
        page = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params) -> dict:
        """The result of a method. RuntimeError if it fails; TimeoutError if the browser does not answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self) -> dict:
        """The next message; events are noted."""
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self._buffer:
            if not select.select([self.into], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self.into, 1 << 20)
            if not part:
                raise RuntimeError("the browser is gone")
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        event, params = message.get("method"), message.get("params", {})
        if event == "Page.loadEventFired":
            self.loaded = True
        elif event == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.said.append(details.get("exception", {}).get("description") or details["text"])
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            words = " ".join(str(one.get("value", one.get("description"))) for one in params["args"])
            if not _OF_DYGRAPHS.match(words):
                self.said.append(words)
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.said.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        return message

    def open(self, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Show a file in a window of this size, and wait until it is loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.media(dark=dark)
        self.loaded, self.said, self.asked = False, [], []
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not self.loaded:
            self._next()
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def media(self, name: str = "", dark: bool = False) -> None:
        """What style sheets are told: `print`, a dark screen."""
        self.call("Emulation.setEmulatedMedia", media=name, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def run(self, script: str):
        """The value of a JavaScript expression; a promise is waited for. RuntimeError if it throws."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", script))
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key: Tab, Enter, ArrowRight, +, ..."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=codes.get(key, ord(key[0])), **({"text": text} if text else {}))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Move the mouse from one point of the window to another with its button pressed."""
        for kind, (x, y) in (("mousePressed", start), ("mouseMoved", end), ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def picture(self, path: Path, whole: bool = True) -> None:
        """A PNG of the page, or of the part in the window."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def paper(self, path: Path) -> None:
        """The page as a PDF."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def close(self) -> None:
        """End the browser and everything that it started."""
        for descriptor in (self.out, self.into):
            os.close(descriptor)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.profile.cleanup()
