"""The board of a training as a reader meets it in the browser: looks and presses."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page

from tests.browser.lab import READY_MS

SETTLED_S = 2
LIVE = ".ps-live"
# The tasks of the picture and what its arrows carry, as the page has them now.
SCENE = """live => {
    const scene = live.querySelector('.ps-scene');
    const places = {}, rates = {};
    for (const task of scene.querySelectorAll('.ps-task'))
        places[task.querySelector('.ps-name').textContent] =
            ['x', 'y'].map(name => +task.querySelector('rect').getAttribute(name));
    for (const arrow of scene.querySelectorAll('.ps-arrow'))
        rates[arrow.dataset.link] = +arrow.dataset.rate;
    return {places, rates};
}"""
# Texts that a reader sees on the board and that are smaller than they should be.
SMALL = """([live, least]) => {
    const walker = document.createTreeWalker(live, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let text; (text = walker.nextNode()); ) {
        const box = text.parentElement, style = getComputedStyle(box);
        if (!text.textContent.trim() || !box.getClientRects().length) continue;
        const scale = box.getScreenCTM ? box.getScreenCTM().a : 1;
        if (['STYLE', 'SCRIPT', 'TITLE', 'title'].includes(box.tagName)) continue;
        if (parseFloat(style.fontSize) * scale < least)
            found.push(text.textContent.trim() + ' ' + style.fontSize + ' ' + scale);
    }
    return found;
}"""
# Parts of the board that overflow what encloses it at the right, or are cut off.
CUT_OFF = """live => {
    const right = live.getBoundingClientRect().right + 1;
    return [...live.querySelectorAll('*')]
        .filter(part => part.getClientRects().length
            && part.getBoundingClientRect().right > right)
        .map(part => part.tagName + '.' + part.getAttribute('class'));
}"""


# Names and legends of the board that have less room than they need.
SQUEEZED = """live => [
    ...[...live.querySelectorAll('label, .lm-TabBar-tabLabel')]
        .filter(label => label.getClientRects().length
            && label.scrollWidth > label.clientWidth + 1)
        .map(label => label.textContent),
    ...[...Bokeh.index.roots].filter(view => view.model.above && live.contains(view.el)
            && view.el.getClientRects().length)
        .flatMap(view => view.model.above.map(box => Bokeh.index.find_one(box)))
        .filter(view => view && view.model.type === 'Legend' && view.bbox.left < 0)
        .map(view => view.model.items.map(item => item.label.value).join()),
]"""
# The models that BokehJS draws from, without what it computes or reports.
FIGURES = """live => {
    const own = new Set(['id', 'name', 'inner_width', 'inner_height', 'outer_width',
        'outer_height', 'start', 'end', 'inspected', 'active_drag', 'active_scroll',
        'active_tap', 'active_inspect', 'js_event_callbacks', 'tools']);
    const said = (key, value) => own.has(key) ? undefined
        : value instanceof Float32Array || value instanceof Float64Array
        ? [...value].map(number => number.toPrecision(5)) : value;
    return [...Bokeh.index.roots]
        .filter(view => view.el.isConnected && live.contains(view.el))
        .map(view => {
            const plain = [...view.model.references()].map(part => {
                const values = {};
                for (const property of part) {
                    const value = property.is_unset ? null : part[property.attr];
                    values[property.attr] = value instanceof Map ? [...value] : value;
                }
                return part.type + JSON.stringify(values, (key, value) =>
                    value && value.id && value.type ? value.type : said(key, value));
            });
            return plain.sort().join('\\n');
        }).sort();
}"""
LOOKS = """live => [...Bokeh.index.roots]
    .filter(view => view.model.left && live.contains(view.el))
    .map(({model}) => JSON.stringify([
        model.background_fill_color,
        model.left.map(axis => [...(axis.major_label_overrides || [])]),
        model.right.map(axis => axis.visible),
        model.renderers.map(one => [one.visible, one.glyph.type,
            one.glyph.line_color && one.glyph.line_color.value,
            one.glyph.fill_color && one.glyph.fill_color.value]),
    ])).sort()"""
# What has the focus, by its group and name as they are read aloud; null elsewhere.
STOP = """() => {
    const one = document.activeElement;
    if (!one.closest('.ps-live')) return null;
    const label = one.labels && one.labels[0] ? one.labels[0].textContent : '';
    const group = one.closest('[role=radiogroup]');
    if (group) return group.getAttribute('aria-label') + ': ' + label;
    if (one.options) return label + ': ' + one.options[one.selectedIndex].text;
    return label || one.getAttribute('aria-label') || one.textContent.trim();
}"""
# How far below the board's upper edge a part of it ends.
BOTTOM = """(live, part) => live.querySelector(part).getBoundingClientRect().bottom
    - live.getBoundingClientRect().top"""
CONTROLS = """live => [...live.querySelectorAll('input, select, button')]
    .map(one => [one.type, one.value || one.textContent, one.checked, one.disabled,
                 one.options ? one.options.length : ''].join(' '))"""


# How far below the board's upper edge each of its parts that are shown begins.
TOPS = """live => [...live.querySelectorAll('.ps-numbers, .ps-scene, .bk-Figure')]
    .filter(part => part.getClientRects().length)
    .map(part => Math.round(part.getBoundingClientRect().top
                            - live.getBoundingClientRect().top))"""


def live_board(page: Page, number: int = 0) -> Locator:
    """Return the live board number `number` in the notebook."""
    return page.locator(LIVE).nth(number)


def tops(board: Locator) -> list[int]:
    result: list[int] = board.evaluate(TOPS)
    return result


def small_texts(board: Locator) -> list[str]:
    """Return the texts of a board (not those of figures) below 12 px."""
    result: list[str] = board.evaluate(f"live => ({SMALL})([live, 12])")
    return result


def cut_off(board: Locator) -> list[str]:
    result: list[str] = board.evaluate(CUT_OFF)
    return result


def squeezed(board: Locator) -> list[str]:
    result: list[str] = board.evaluate(SQUEEZED)
    return result


def scene(board: Locator) -> dict[str, Any]:
    result: dict[str, Any] = board.evaluate(SCENE)
    return result


def text_of(what: Locator) -> str:
    """Return its text also while Lab does not lay it out, because it is far away."""
    return what.text_content() or ""


def still_picture(page: Page) -> str:
    """Wait for what a notebook keeps of a board, and return its text."""
    still = page.locator(".ps-snapshot:visible").first
    still.wait_for()
    return text_of(still)


def headline(board: Locator) -> str:
    return text_of(board.locator(".ps-head"))


def number(board: Locator, name: str) -> float:
    """Return a number of the board's row of numbers."""
    cell = board.locator(".ps-numbers > div", has_text=name).first
    return float(text_of(cell.locator("b")).replace(",", "").split()[0])


def wait_for_head(board: Locator, text: str) -> None:
    board.locator(f".ps-head:has-text({text!r})").wait_for()


def settled_headline(board: Locator) -> str:
    """Wait until the headline says the same for some seconds: all news are in."""
    text, same_s = headline(board), 0
    while same_s < SETTLED_S:
        board.page.wait_for_timeout(1000)
        before, text = text, headline(board)
        same_s = same_s + 1 if text == before else 0
    return text


def wait_for_more_steps(board: Locator) -> None:
    wait_for_step(board, number(board, "step") + 20)


def wait_for_step(board: Locator, step: float) -> None:
    for _ in range(READY_MS // 100):
        if number(board, "step") >= step:
            return
        board.page.wait_for_timeout(100)
    raise AssertionError(f"the board stands at step {number(board, 'step'):,.0f}")


def wait_for_bytes(board: Locator) -> None:
    """Wait until arrows carry something."""
    arrow = ".ps-arrow:not(.ps-still)"
    board.locator(arrow).first.wait_for(state="attached")


def press_topology(board: Locator, name: str) -> None:
    board.locator(".widget-radio label", has_text=name).first.click()


def press(board: Locator, button: str) -> None:
    board.get_by_role("button", name=button, exact=True).click()


def choose(board: Locator, menu: str, option: str) -> None:
    board.get_by_label(menu).select_option(option)


def open_tab(board: Locator, name: str) -> None:
    board.get_by_role("tab", name=name).click()


def figures(board: Locator) -> list[str]:
    """Return what the page draws: each figure's model as text, without its sizes."""
    result: list[str] = board.evaluate(FIGURES)
    return result


def controls(board: Locator) -> list[str]:
    """Return each control with its value, and whether it can be used."""
    result: list[str] = board.evaluate(CONTROLS)
    return result


def same_figures(board: Locator, drawn: list[str]) -> bool:
    """Wait until the page draws from these models, as `figures` gives them."""
    for _ in range(READY_MS // 500):
        if figures(board) == drawn:
            return True
        board.page.wait_for_timeout(500)
    return False


def links_and_looks(board: Locator) -> list[Any]:
    """Return what stays while a training goes on: strips, axes, colours, controls."""
    result: list[Any] = board.evaluate(LOOKS)
    return [result, controls(board)]
