"""The drawing: well-formed, complete, safe, and readable in both themes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from kit.picture.layout import lay_out
from kit.picture.scene import BoxKind, Edge, GraphBox, Scene
from kit.picture.svg import DARK, LIGHT, Colours, draw, style_sheet
from tests.contrast import contrast
from tests.picture.sample import two_towers

NAMESPACE = "{http://www.w3.org/2000/svg}"


def parsed(scene: Scene) -> ElementTree.Element:
    return ElementTree.fromstring(draw(scene, lay_out(scene)))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{NAMESPACE}text")]


def test_every_task_and_every_box_is_named() -> None:
    graph, _ = two_towers()
    scene = graph.visualize().scene

    result = texts(parsed(scene))

    assert {"ps:0", "worker:0", "worker:1"} <= set(result)
    assert {box.title for box in scene.boxes} <= set(result)


def test_name_cannot_become_markup() -> None:
    evil = '</text><script>alert("x")</script>'
    scene = Scene((GraphBox("a", BoxKind.OP, evil, evil, evil, evil),), (), (evil,), 1)

    root = parsed(scene)

    assert not list(root.iter(f"{NAMESPACE}script"))
    assert evil in texts(root)


def test_line_between_tasks_is_bold_and_a_control_line_dashed() -> None:
    boxes = (
        GraphBox("a", BoxKind.OP, "ps:0", "a"),
        GraphBox("a > w", BoxKind.ARRIVAL, "worker:0", "a", origin="ps:0"),
        GraphBox("b", BoxKind.OP, "worker:0", "b"),
    )
    lines = (
        Edge("a", "a > w", is_bold=True),
        Edge("a > w", "b"),
        Edge("a > w", "b", is_control=True),
    )

    root = parsed(Scene(boxes, lines, ("ps:0", "worker:0"), 2))

    widths = [
        float(element.get("stroke-width", "0"))
        for element in root.iter(f"{NAMESPACE}path")
        if "C" in element.get("d", "") or "V" in element.get("d", "")
    ]
    assert max(widths) > 2 * min(widths)


def test_legend_tells_only_of_what_is_there() -> None:
    plain = Scene((GraphBox("a", BoxKind.OP, "ps:0", "a"),), (), ("ps:0",), 1)
    variable = Scene((GraphBox("a", BoxKind.VARIABLE, "ps:0", "a"),), (), ("ps:0",), 1)

    assert "variable" not in texts(parsed(plain))
    assert "variable" in texts(parsed(variable))


def test_faint_box_is_drawn_fainter() -> None:
    scene = Scene((GraphBox("a", BoxKind.OP, "p", "a", is_faint=True),), (), ("p",), 1)

    groups = list(parsed(scene).iter(f"{NAMESPACE}g"))

    assert [float(group.get("opacity", "1")) < 0.6 for group in groups] == [True]


def test_drawing_loads_nothing_and_styles_nothing_else() -> None:
    graph, _ = two_towers()
    svg = graph.visualize().svg

    assert "href" not in svg
    assert "url(" not in svg
    rules = re.sub(r"@media[^{]*\{", "", style_sheet())
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", rules)
    assert selectors
    assert all(".kit-graph " in selector for selector in selectors)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_and_outlines_stand_out_from_the_ground(colours: Colours) -> None:
    assert contrast(colours.ink, colours.ground) >= 7
    assert contrast(colours.faint, colours.ground) >= 4.5
    assert min(contrast(hue, colours.ground) for hue in colours.hues) >= 3


def test_page_theme_counts_more_than_that_of_the_system() -> None:
    sheet = style_sheet()
    system = sheet.index("prefers-color-scheme: dark")

    assert sheet.index('[data-jp-theme-light="true"]') > system
    assert sheet.index('[data-jp-theme-light="false"]') > system
    assert LIGHT.ground in sheet[:system]
    assert DARK.ground in sheet[system:]
