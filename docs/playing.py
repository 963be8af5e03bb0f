"""Make the boards and steppers that play in the pages of the site.

They are made once in each folder of output, by the programs that readers have; a page
shows one as `<iframe src="playing/NAME.html">`. `make clean` forgets them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import kit
from kit.demo.digits import digits_mlp
from widgets import RingStepper, ServerStepper, TrafficBoard

_STEPS, _WAIT_S = 300, 120


def _board(path: Path) -> None:
    model = digits_mlp(seed=0)
    how: dict[str, Any] = {"optimizer": kit.Adam(0.003), "batch": 96, "steps": _STEPS}
    with kit.Cluster(ps=1, worker=3):
        run = kit.train(model.step, model.params, model.train, link="1gbit", **how)
        run.switch("ring", at=_STEPS // 2)
        run.wait(_WAIT_S)
    TrafficBoard(run).save(path)


PAGES: dict[str, Callable[[Path], None]] = {
    "board": _board,
    "ring": lambda path: RingStepper(n=4).save(path),
    "servers": lambda path: ServerStepper(n=3).save(path),
}


def make(folder: Path) -> None:
    """Write the pages that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in PAGES.items():
        path = folder / f"{name}.html"
        if not path.exists():
            write(path)


def setup(app: Sphinx) -> dict[str, Any]:
    """Make them before pages are read, so that what fails is seen at once."""
    app.connect("builder-inited", lambda app: make(Path(app.outdir) / "playing"))
    return {"parallel_read_safe": True}
