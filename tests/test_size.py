"""What is counted as the project's weight."""

from __future__ import annotations

from pathlib import Path

from tests.size import COLUMNS, weight_of, weights

PROGRAM = '''"""A text of
two lines."""

# A comment.
def found(self):
    """Return it."""
    self._own = one = self.__class__  # why

    text = """two
lines"""
    row._replace(one="_link"), run._repr_html_()
    return run._link, setattr(run, "_link", text)
'''


def test_only_code_counts_and_only_what_reaches_into_something_else() -> None:
    weight = weight_of(PROGRAM)

    assert weight == {"files": 1, "code": 6, "private": 2, "dialect": 3}


def test_a_folder_weighs_as_much_as_its_packages_and_its_own_files(
    tmp_path: Path,
) -> None:
    for name, text in {
        "kit/own.py": "a = 1\n",
        "kit/wire/link.py": "a = 1\nb._c = 2\n",
        "kit/wire/deep/link.py": "a = 1\n",
        "tests/tf1/recorded/a.json": "{\n}\n",
        "kit/wire/notes.txt": "not counted\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    rows = {
        name: [weight[key] for key in COLUMNS] for name, weight in weights(tmp_path)
    }

    assert rows == {
        "kit": [3, 4, 0, 1, 0],
        "kit/wire": [2, 3, 0, 1, 0],
        "tests": [0, 0, 2, 0, 0],
        "tests/tf1": [0, 0, 2, 0, 0],
    }
