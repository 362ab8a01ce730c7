"""A browser through chromedriver and the W3C WebDriver protocol, with the standard library alone."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "ArrowDown": "\ue015", "Space": " "}


def missing():
    """Why there is no browser here; empty where there is one."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        return "no Chromium here; on Debian: apt-get install chromium chromium-driver"
    if not shutil.which("chromedriver"):
        return "no chromedriver here; on Debian: apt-get install chromium-driver"
    return ""


class Browser:
    """One browser window."""

    def __init__(self, width=1280, height=900, dark=False):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.root = f"http://127.0.0.1:{port}"
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}", "--silent"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        arguments.append(f"--window-size={width},{height}")
        if dark:
            arguments.append("--force-dark-mode")
        browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        options = {"args": arguments, "binary": browser}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        for attempt in range(100):
            try:
                made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
                break
            except urllib.error.URLError as error:
                if attempt == 99 or self.driver.poll() is not None:
                    self.driver.kill()
                    raise RuntimeError(f"chromedriver does not answer: {error}") from error
                time.sleep(0.1)
        self.session = f"/session/{made['sessionId']}"

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError(f"{value['error']}: {value['message'][:600]}") from error

    def call(self, method, path, body=None):
        return self._call(method, self.session + path, body)

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a script's `return`; a promise is awaited."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, text):
        """Presses keys on whatever has the focus."""
        down = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": down}]})

    def press(self, name):
        self.type([KEYS[name]])

    def back(self):
        self.call("POST", "/back", {})

    def text(self, selector):
        return self.call("GET", f"/element/{self.find(selector)}/text")

    def url(self):
        return self.call("GET", "/url")

    def cdp(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self):
        """What the console said."""
        return self.call("POST", "/se/log", {"type": "browser"})

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))

    def until(self, script, what, seconds=10.0):
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({script})"):
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds} s: {what}")
            time.sleep(0.02)
