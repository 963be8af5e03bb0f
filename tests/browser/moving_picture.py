"""Make the moving picture of the README: `python -m tests.browser.moving_picture`.

A training on slow links is moved from the parameter server to the ring and back, and
the page that a class would see of it is photographed meanwhile.
"""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Final

from PIL import Image

import kit
from kit.demo.digits import digits_mlp
from tests.browser.lab import ROOT, browser_page, resize
from widgets import TrafficBoard

FILE: Final = ROOT / "docs" / "switch.webp"
EVERY_S: Final = 0.25
SWITCHES: Final = {4.0: "ring", 9.0: "ps"}
END_S: Final = 12.0


def make(path: Path) -> None:
    """Write the picture, of `END_S` seconds as they were."""
    model = digits_mlp(seed=0)
    with kit.Cluster(ps=1, worker=3), browser_page() as page:
        run = kit.train(
            model.step, model.params, model.train, batch=96, steps=10**6, link="100mbit"
        )
        share = TrafficBoard(run).share()
        resize(page, 960, 620)
        page.goto(share.url)
        page.wait_for_timeout(3000)  # until its rates have settled
        switches = dict(SWITCHES)
        frames, begin = [], time.monotonic()
        while (now := time.monotonic() - begin) < END_S:
            for at in [at for at in switches if at <= now]:
                run.topology = switches.pop(at)
            png = io.BytesIO(page.screenshot())
            frames.append(Image.open(png).convert("RGB"))
            page.wait_for_timeout(1e3 * EVERY_S)
        share.close()
        run.stop()
    each_ms = round(1e3 * END_S / len(frames))
    first, *others = frames
    first.save(
        path, save_all=True, append_images=others, duration=each_ms, loop=0, quality=60
    )


if __name__ == "__main__":
    make(FILE)
