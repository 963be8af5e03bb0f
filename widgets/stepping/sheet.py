"""The style sheet of a stepper, on top of the board's (`widgets.drawing.looks`).

Pure text. Nothing hangs on colour alone: a sum that is complete has a tick, a cell that
has just changed a thick frame, one whose sum was sent on a dashed one.
"""

from __future__ import annotations

from widgets.drawing.looks import style as board_style
from widgets.drawing.theme import TEXT_PX

_STYLE = """
.ps-stepper .ps-said { font-size: 15px; min-height: 3em; max-width: 110ch; }
.ps-board.ps-stepper .ps-numbers { max-width: 690px;
  grid-template-columns: repeat(3, minmax(0, 1fr)); }
.ps-stepper .ps-where { font-weight: 600; }
.ps-stepper .ps-both { display: flex; flex-wrap: wrap-reverse; gap: 10px 20px;
  align-items: flex-end; }
.ps-board.ps-stepper .ps-both > svg { flex: 1 1 384px; min-width: 384px;
  max-width: 480px; margin: 0; }
.ps-stepper .ps-both > div { flex-grow: 3; min-width: 0; overflow-x: auto; }
.ps-stepper .ps-both > div:focus-visible { outline: 3px solid var(--ps-accent); }
.ps-stepper .ps-matrix { border-collapse: separate; border-spacing: 4px;
  margin: 0; }
.ps-board.ps-stepper .ps-matrix tr { background: none; }
.ps-board.ps-stepper .ps-matrix :is(th, td) { text-align: left; }
.ps-stepper .ps-matrix th { border: none; padding: 2px 6px; vertical-align: middle; }
.ps-stepper .ps-matrix tbody th { white-space: nowrap; }
.ps-stepper .ps-matrix th small { display: block; white-space: nowrap;
  font-size: TEXTpx; color: var(--ps-faint); }
.ps-stepper .ps-matrix td { border: 1.5px solid var(--ps-grid); border-radius: 6px;
  background: var(--ps-panel); padding: 4px 8px; min-width: 72px;
  vertical-align: top; }
.ps-stepper .ps-matrix b { display: block; font-size: 15px; font-weight: 650;
  overflow-wrap: anywhere; }
.ps-stepper .ps-matrix span { display: block; font-size: TEXTpx;
  white-space: pre-wrap; }
.ps-stepper .ps-matrix i { display: block; font-size: TEXTpx; font-style: normal;
  color: var(--ps-faint); }
.ps-stepper .ps-matrix .ps-old { border: 1.5px dashed var(--ps-faint);
  background: none; }
.ps-stepper .ps-matrix .ps-from { border: 3px dashed var(--ps-push); }
.ps-stepper .ps-matrix .ps-to { border: 3px solid var(--ps-push); }
.ps-stepper .ps-matrix .ps-from.ps-out-again { border-color: var(--ps-pull); }
.ps-stepper .ps-matrix .ps-to.ps-out-again { border-color: var(--ps-pull); }
.ps-stepper .ps-matrix .ps-full b { color: var(--ps-pull); }
.ps-stepper .ps-meter { height: 5px; border-radius: 2px; background: var(--ps-grid);
  margin: 3px 0; }
.ps-stepper .ps-meter div { height: 5px; border-radius: 2px;
  background: var(--ps-accent); }
.ps-stepper .ps-full .ps-meter div { background: var(--ps-pull); }
.ps-stepper .ps-scene text { font-size: 21px; }
.ps-stepper .ps-scene .ps-way { font-size: 20px; }
.ps-stepper .ps-scene .ps-rate { font-size: 21px; font-weight: 650; }
.ps-stepper .ps-waits path { stroke-dasharray: 9 6; opacity: .75; }
.ps-stepper .ps-key { font-size: TEXTpx; color: var(--ps-faint); }
.ps-stepper .ps-buttons { display: flex; flex-wrap: wrap; gap: 8px; margin: 10px 0;
  align-items: center; }
.ps-stepper .ps-buttons input { flex: 1 1 200px; max-width: 420px; height: 24px;
  accent-color: var(--ps-accent); }
.ps-stepper input:focus-visible { outline: 3px solid var(--ps-accent);
  outline-offset: 2px; }
.ps-stepper .ps-state { margin: 0 0 26px; }
.ps-stepper .ps-state[hidden] { display: none; }
"""


def style() -> str:
    """Return the whole style sheet, the board's included."""
    return board_style() + _STYLE.replace("TEXT", str(TEXT_PX))
