"""What processes of one host note of the generations that they begin."""

from __future__ import annotations

from pathlib import Path

from kit.server.elastic.begun_here import Begun, BegunHere

FIRST, SECOND = ("worker:0", "worker:2"), ("worker:2",)


def test_any_process_reads_the_newest_generation_whoever_has_noted_it(
    tmp_path: Path,
) -> None:
    first, other = (BegunHere(tmp_path / "generations") for _ in range(2))

    assert first.newest() == Begun(0, ())
    first.append(7, FIRST, "worker:0")
    other.append(9, SECOND, "worker:2")
    first.append(7, FIRST, "worker:1")  # a process that was told late

    by = "worker:0", "worker:1", "worker:2"
    assert first.newest() == other.newest() == Begun(9, SECOND, by)


def test_a_line_that_is_cut_short_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "generations"
    begun = BegunHere(path)
    begun.append(7, FIRST, "worker:0")
    whole = path.read_bytes()
    for n_bytes in range(len(whole)):
        path.write_bytes(whole + whole[:n_bytes])
        assert begun.newest() == Begun(7, FIRST, ("worker:0",))


def test_without_its_folder_nothing_is_noted_and_nothing_fails(tmp_path: Path) -> None:
    begun = BegunHere(tmp_path / "gone" / "generations")

    begun.append(7, FIRST, "worker:0")

    assert begun.newest() == Begun(0, ())
