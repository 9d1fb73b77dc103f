"""Takes the README's picture: the page of a small function with one source line's chain lit. `make picture`.

Needs Chromium.
"""

from __future__ import annotations

import linecache
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

import explorer
from explorer.view.html import script_hash

HERE = Path(__file__).parent

SOURCE = """\
def gated(x, weight):
    gate = torch.sigmoid(x)
    y = F.gelu(x * weight) * gate
    return y.sum(dim=-1)
"""

PIN = """
for (const part of document.querySelectorAll("#r-overview, #r-reasons, #r-environment")) part.hidden = true;
for (const part of document.querySelectorAll(".right > section")) {
  const heading = part.querySelector("summary, h3").textContent;
  part.hidden = !["trace", "Code:"].includes(heading.split(" ")[0]);
}
const line = [...document.querySelectorAll(".left [data-n]")].find((row) => row.textContent.includes("sigmoid"));
line.dispatchEvent(new MouseEvent("click", { bubbles: true }));
line.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
"""


def gated() -> Callable[..., torch.Tensor]:
    """The function in the picture, as if it were in a file of its own."""
    file = "gated.py"
    linecache.cache[file] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), file)
    names = {"torch": torch, "F": F}
    exec(compile(SOURCE, file, "exec"), names)
    return names["gated"]


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Chromium is needed to take the picture; install the package chromium")
    record = explorer.explore(gated())(torch.randn(1024, 1024), torch.randn(1024))
    with tempfile.TemporaryDirectory() as folder:
        page = record.to_html(Path(folder) / "page.html")
        text = page.read_text().replace("script-src '", f"script-src '{script_hash(PIN)}' '", 1)
        page.write_text(text.replace("</body>", f"<script>{PIN}</script></body>"))
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,1050"]
        picture = f"--screenshot={HERE / 'page.png'}"
        subprocess.run([chromium, *flags, picture, page.as_uri()], check=True, capture_output=True)
    print(HERE / "page.png")


if __name__ == "__main__":
    main()
