"""A real browser: Debian's Chromium, driven by its own driver, without a screen."""

from __future__ import annotations

import http.server
import os
import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS = ("chromium", "chromedriver")
#: Texts that cannot be read: WCAG 2.1 asks for a contrast of 4.5 (success criterion
#: 1.4.3). What a text stands on is the nearest opaque background; in a picture the
#: page's, or the shape that a number is written on.
LOW_CONTRAST = """
const channel = c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
const parts = [.2126, .7152, .0722];
const light = rgb => parts.reduce((sum, part, i) => sum + part * channel(rgb[i]), 0);
const parse = text => (text.match(/[0-9.]+/g) || [0, 0, 0, 0]).map(Number);
const opaque = rgb => rgb.length < 4 || rgb[3] > 0;
const ground = node => {
  const shape = node.previousElementSibling;
  if (node.classList.contains('digit')) return parse(getComputedStyle(shape).fill);
  for (let at = node; at; at = at.parentElement) {
    const rgb = parse(getComputedStyle(at).backgroundColor);
    if (opaque(rgb)) return rgb;
  }
  return [255, 255, 255];
};
const found = [];
for (const node of document.querySelectorAll('body *')) {
  const own = [...node.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (!own || ['title', 'desc'].includes(node.tagName)) continue;
  const style = getComputedStyle(node);
  const ink = node instanceof SVGElement ? style.fill : style.color;
  const [a, b] = [light(parse(ink)), light(ground(node))].sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05);
  if (ratio < 4.5) found.push([node.textContent.slice(0, 40), ink, ratio]);
}
return found;
"""
#: Texts of pictures that leave their picture.
OUTSIDE = """
return [...document.querySelectorAll('svg text')].filter(node => {
  const box = node.getBBox(), view = node.ownerSVGElement.viewBox.baseVal;
  return box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1
    || box.y + box.height > view.height + 1;
}).map(node => node.textContent);
"""
#: Pairs of texts of one picture that cover each other by more than two pixels.
COVERED = """
const found = [];
for (const svg of document.querySelectorAll('svg')) {
  const all = [...svg.querySelectorAll('text')];
  const texts = all.map(n => [n.textContent, n.getBBox()]);
  texts.sort((a, b) => a[1].y - b[1].y);
  for (let i = 0; i < texts.length; i++)
    for (let j = i + 1; j < texts.length; j++) {
      const [a, b] = [texts[i][1], texts[j][1]];
      if (b.y > a.y + a.height) break;
      const wide = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
      const tall = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
      if (wide > 2 && tall > 4) found.push([texts[i][0], texts[j][0]]);
    }
}
return found;
"""
ACTIVE = """
const tags = 'script, img, iframe, object, embed, a[href], form';
return [...document.querySelectorAll(tags)].concat(
  [...document.querySelectorAll('*')].filter(
    n => [...n.attributes].some(a => /^on|href$|^style$/i.test(a.name)
      && a.value !== 'data:,')))
.map(n => n.outerHTML.slice(0, 80));
"""
SELECTED = """
getSelection().selectAllChildren(document.body);
return getSelection().toString();
"""


def why_not() -> str | None:
    """Why there is no browser here; None if there is one."""
    lost = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"needs {', '.join(lost)} (make test installs them)" if lost else None


def start() -> webdriver.Chrome:
    """Start it; nothing of another browser on this machine is used or asked for."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for word in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    if os.getuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's sandbox refuses root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))


@dataclass
class View:
    """A page as a browser shows it."""

    chrome: webdriver.Chrome
    asked: list[str] = field(default_factory=list)  # what the server was asked for

    def run(self, script: str) -> Any:  # noqa: ANN401  as JSON has it
        """What a script sees on the page; the page itself may run none."""
        return self.chrome.execute_script(script)

    def text(self, css: str = "body") -> str:
        """The text that a user sees there."""
        return str(self.chrome.find_element("css selector", css).text)

    def count(self, css: str) -> int:
        """How many of these there are."""
        return len(self.chrome.find_elements("css selector", css))

    def told(self) -> list[str]:
        """What is on the console."""
        lines: list[dict[str, str]] = self.chrome.get_log("browser")  # type: ignore[no-untyped-call]
        return [line["message"] for line in lines]

    def mode(self, colours: str) -> None:
        """Ask for light or dark colours."""
        feature = {"name": "prefers-color-scheme", "value": colours}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    def devtools(self, command: str, **arguments: object) -> None:
        """Give a command of the devtools protocol."""
        self.chrome.execute_cdp_cmd(command, arguments)


@contextmanager
def served(chrome: webdriver.Chrome, page: str) -> Iterator[View]:
    """Show a page that comes from a server, which notes whatever it is asked for."""
    view = View(chrome)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            view.asked.append(self.path)
            data = page.encode() if self.path == "/page" else b"ours"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            view.told()  # of the page before
            chrome.get(f"http://127.0.0.1:{server.server_port}/page")
            yield view
        finally:
            chrome.get("about:blank")
            server.shutdown()


def shown(chrome: webdriver.Chrome, path: Path) -> View:
    """Show a page from its file."""
    view = View(chrome)
    view.told()
    chrome.get(path.as_uri())
    return view
