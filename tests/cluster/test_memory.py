from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.cluster import memory
from kit.errors import NotEnoughMemory

MIB = 1 << 20


def test_too_little_memory_names_need_available_and_what_would_fit() -> None:
    available = memory.need_mib(3)

    with pytest.raises(NotEnoughMemory) as caught:
        memory.check(1, 7, available)

    text = str(caught.value)
    assert f"about {memory.need_mib(8)} MiB" in text
    assert f"{available} MiB are available" in text
    assert "2 workers would fit: Cluster(ps=1, worker=2)" in text


def test_hardly_any_memory_does_not_suggest_a_cluster() -> None:
    with pytest.raises(NotEnoughMemory, match="not even one worker"):
        memory.check(1, 1, 10)


@given(st.integers(0, 100_000))
def test_what_fits_fits_and_one_more_does_not(available: int) -> None:
    n = memory.engines_that_fit(available)

    assert n == 0 or memory.need_mib(n) <= available
    assert memory.need_mib(n + 1) > available


def write(folder: Path, **numbers: str) -> Path:
    folder.mkdir()
    for name, text in numbers.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_a_limit_of_the_second_kind_counts_without_the_file_cache(
    tmp_path: Path,
) -> None:
    v2 = write(
        tmp_path / "v2",
        memory__max=f"{1000 * MIB}\n",
        memory__current=f"{600 * MIB}\n",
        memory__stat=f"anon 5\ninactive_file {100 * MIB}\n",
    )

    assert memory.container_mib(v2, tmp_path / "none") == 500


def test_a_limit_of_the_first_kind_counts(tmp_path: Path) -> None:
    v1 = write(
        tmp_path / "v1",
        memory__limit_in_bytes=f"{300 * MIB}\n",
        memory__usage_in_bytes=f"{100 * MIB}\n",
    )

    assert memory.container_mib(tmp_path / "none", v1) == 200


@pytest.mark.parametrize(
    "files",
    [
        {"memory__max": "max\n", "memory__current": "5\n"},
        {"memory__limit_in_bytes": f"{2**63 - 4096}", "memory__usage_in_bytes": "5"},
    ],
)
def test_no_limit_is_no_limit(tmp_path: Path, files: dict[str, str]) -> None:
    group = write(tmp_path / "group", **files)

    assert memory.container_mib(group, group) is None


def test_this_machine_has_some_memory_and_not_more_than_it_has() -> None:
    total = int(Path("/proc/meminfo").read_text().split()[1]) >> 10

    assert 0 < memory.available_mib() <= total
