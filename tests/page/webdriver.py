# SPDX-License-Identifier: GPL-3.0-or-later
"""A small WebDriver client (W3C) for a headless Chromium; standard library only."""

import base64
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request

START_S = 60
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class WebDriverError(Exception):
    """What the browser refused."""


class Browser:
    """One browser window; a context manager.

    dark  whether pages see a preference for dark colours
    """

    def __init__(self, width=1440, height=1600, dark=False):
        self.size, self.dark = (width, height), dark
        self.driver, self.base, self.session = None, "", ""

    def __enter__(self):
        program = shutil.which("chromedriver") or "/usr/bin/chromedriver"
        self.driver = subprocess.Popen([program, "--port=0"], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.base = f"http://127.0.0.1:{found[1]}"
                break
        width, height = self.size
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--disable-dev-shm-usage", f"--window-size={width},{height}",
                     "--disable-background-networking", "--no-first-run"]
        if self.dark:
            arguments += ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments},
                  "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            reply = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except BaseException:
            self._end_driver()
            raise
        self.session = f"/session/{reply['sessionId']}"
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", self.session)
        finally:
            self._end_driver()

    def _end_driver(self):
        self.driver.terminate()
        self.driver.wait(10)
        self.driver.stdout.close()

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=START_S) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise WebDriverError(json.load(error)["value"]["message"]) from None

    def open(self, url):
        """Loads a page."""
        self._call("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        """The value that a script returns."""
        body = {"script": script, "args": list(arguments)}
        return self._call("POST", self.session + "/execute/sync", body)

    def keys(self, selector, text):
        """Types into an element."""
        found = self._call("POST", self.session + "/element",
                           {"using": "css selector", "value": selector})
        self._call("POST", f"{self.session}/element/{found[ELEMENT]}/value", {"text": text})

    def press(self, *keys):
        """Presses keys, one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", self.session + "/actions",
                   {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def screenshot(self, path):
        """Writes a picture of the window as PNG."""
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("GET", self.session + "/screenshot")))

    def console(self):
        """What the page wrote to the console, warnings and errors only."""
        lines = self._call("POST", self.session + "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("WARNING", "SEVERE")]
