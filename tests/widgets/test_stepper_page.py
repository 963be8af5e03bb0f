"""What a stepper shows: as text, in a notebook, and as a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases import for_each
from tests.widgets.insides import bundle_of
from tests.widgets.pages import Page
from tests.widgets.playing import unpacked
from widgets import ExchangeStepper, RingStepper, ServerStepper
from widgets.stepping import drawing, words


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("stepper") / "ring.html"
    RingStepper(n=3).save(path)
    return path.read_text("utf-8")


def test_text_says_what_happened_and_shows_the_matrix() -> None:
    stepper = RingStepper(n=3, size=3)
    stepper.position = 4

    assert repr(stepper).splitlines() == [
        "Message 4 of 12, hop 2 of 4 (add up). worker:0 sends chunk 2 to worker:1: "
        "the sum of workers 0 and 2, 4 bytes. worker:1 adds: now the sum of all "
        "workers is complete there.",
        "          chunk 0  chunk 1  chunk 2",
        "worker:0  0        0        2+0",
        "worker:1  0+1      1        2+0+1\u2713",
        "worker:2  2        1+2      2",
    ]


def test_text_shows_what_a_server_keeps() -> None:
    stepper = ServerStepper(n=2, size=2)
    stepper.next()

    assert "ps:0 keeps it until it has the numbers of all workers." in repr(stepper)
    assert repr(stepper).splitlines()[2] == "ps:0      \u2013 (0)    \u2013 (0)"


def test_parts_of_a_chunk_on_two_servers_have_letters() -> None:
    stepper = ServerStepper(n=3, size=6, n_ps=2)

    heads = repr(stepper).splitlines()[1].split("  ")
    assert [head for head in heads if head] == [
        "chunk 0", "chunk 1a", "chunk 1b", "chunk 2",
    ]  # fmt: skip


@for_each("name", ["ring", "ring-whole", "mesh", "ps"])
def test_the_last_sentence_says_that_all_have_the_result(name: str) -> None:
    recording = ExchangeStepper(name, 3).recording
    last = len(recording.states) - 1

    lines = [words.said(recording, position) for position in range(last + 1)]

    ends = [text.endswith("it is the mean.") for text in lines]
    assert ends == [False] * last + [True]


@pytest.mark.slow
def test_a_saved_page_has_every_state_and_asks_nobody_for_anything(page: str) -> None:
    tracks = unpacked(page)

    assert list(tracks) == [f"{n} workers" for n in range(2, 9)]
    assert [said[:13] for said, _ in tracks["3 workers"]][:3] == [
        "Before the fi", "Message 1 of ", "Message 2 of ",
    ]  # fmt: skip
    # 2(n-1) rounds of n messages, and the beginning
    assert [len(frames) for frames in tracks.values()] == [
        1 + 2 * (n - 1) * n for n in range(2, 9)
    ]
    assert Page(page).asked() == []
    assert "default-src 'none'" in page


@pytest.mark.slow
def test_the_states_of_a_saved_page_are_those_of_the_steppers(page: str) -> None:
    tracks = unpacked(page)

    for n in (2, 5):
        stepper = RingStepper(n=n)
        recording, formula = stepper.recording, stepper.formula
        for at, (_, (head, said, state, _)) in enumerate(tracks[f"{n} workers"]):
            assert head == words.title(recording)
            assert said == drawing.sentence(recording, at)
            assert state == drawing.state(recording, formula, at)


def test_own_values_are_stepped_through_with_their_own_workers(tmp_path: Path) -> None:
    stepper = RingStepper(values=[[1, 2], [3, 4]])
    with pytest.raises(FileNotFoundError):
        stepper.save(tmp_path / "nowhere" / "ring.html")
    assert list(tmp_path.iterdir()) == []  # it appears whole or not at all

    stepper.save(tmp_path / "own.html")

    assert list(unpacked((tmp_path / "own.html").read_text("utf-8"))) == ["2 workers"]


def test_a_saved_page_shows_the_turning_points_where_no_script_runs(page: str) -> None:
    seen = Page(page)
    hidden = [attributes for _, attributes in seen.tags if "hidden" in attributes]

    assert [attributes.get("class") for attributes in hidden] == ["ps-buttons"]
    assert len(seen.of_class("ps-state")) == 3
    assert [text[:13] for text in seen.of_class("ps-said")] == [
        "Before the fi", "Message 6 of ", "Message 12 of",
    ]  # fmt: skip


def test_the_matrix_shows_sums_numbers_and_counters_of_a_state() -> None:
    stepper = RingStepper(values=[[1, 2, 3], [10, 20, 30], [100, 200, 300]])

    seen = Page(drawing.state(stepper.recording, stepper.formula, 2))

    assert seen.of_class("ps-from") == ["120"]
    assert seen.of_class("ps-to") == ["1+2220"]
    assert seen.of_class("ps-old") == ["01", "120"]
    (numbers,) = seen.of_class("ps-numbers")
    assert "messages arrived 2 of 12 in all" in numbers
    assert "bytes arrived 8 by formula 48 in all" in numbers
    assert "hop 1 of 4" in numbers


def test_the_still_picture_shows_the_turning_points_and_stays_small() -> None:
    small, large = RingStepper(n=3), RingStepper(n=8)

    assert drawing.turning_points(small.recording) == [0, 6, 12]
    assert drawing.turning_points(RingStepper(3, whole=True).recording) == [0, 6, 7]
    assert drawing.turning_points(RingStepper(1).recording) == [0]
    assert len(Page(bundle_of(small)["text/html"]).of_class("ps-state")) == 3
    assert len(bundle_of(large)["text/html"]) < 100_000


def test_nothing_hangs_on_colour_alone_or_is_smaller_than_twelve_pixels() -> None:
    style = drawing.style()

    assert ".ps-from { border: 3px dashed" in style
    assert ".ps-to { border: 3px solid" in style
    assert "\u2713" in drawing.KEY
    rules = style.split(".ps-board.ps-stepper", 1)[1]
    sizes = [
        (("ps-scene" in rule), int(size))
        for rule in rules.split("}")
        for size in re.findall(r"font-size: (\d+)px", rule)
    ]
    # The picture is 640 wide, and at least 308 pixels of that are on the screen.
    assert "min-width: 308px" in rules
    assert len(sizes) > 6
    for is_drawn, size in sizes:
        assert size * (308 / 640 if is_drawn else 1) >= 12


def test_many_numbers_are_cut_in_the_matrix_and_whole_in_held() -> None:
    stepper = RingStepper(n=2, size=40)

    html = drawing.matrix(stepper.recording, stepper.formula, 0)

    assert "1  4  7  1 \u2026" in html
    assert len(stepper.held("worker:0")) == 40


def test_outside_of_a_notebook_a_stepper_is_its_text() -> None:
    with pytest.raises(NotImplementedError):
        RingStepper(n=2)._ipython_display_()
