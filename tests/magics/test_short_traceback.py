"""An error of the kit in a notebook takes twelve lines, and `%tb` has all of it."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

import kit
from kit.magics.short_traceback import with_source
from tests.magics.stage import Cells

MOST = 12


FAILING = "import kit\nkit.Adam(learning_rate='fast')"


def test_error_of_the_kit_is_its_sentence_and_the_line_of_the_cell_until_asked(
    cells: Cells,
) -> None:
    result = cells.failing(FAILING)
    whole = cells.shown("%tb").splitlines()

    assert result[0].startswith("InvalidArgumentError: ")
    assert result[-1] == "%tb shows the whole traceback."
    assert "----> 2 kit.Adam(learning_rate='fast')" in result
    assert len(result) <= MOST
    assert any("rules.py" in line or "rule.py" in line for line in whole)
    assert len(whole) > MOST


def test_verbose_mode_shows_the_whole_traceback_at_once(cells: Cells) -> None:
    cells.shown("%xmode Verbose")
    try:
        whole = cells.failing(FAILING)
    finally:
        cells.shown("%xmode Context")

    assert len(whole) > MOST


def test_other_errors_are_shown_as_before(cells: Cells) -> None:
    result = cells.failing("1 / 0")

    assert any(line.startswith("ZeroDivisionError") for line in result)
    assert "%tb shows the whole traceback." not in result


def test_long_message_is_cut_and_whole_on_the_error(cells: Cells) -> None:
    result = cells.failing(
        "import kit, sys\n"
        "raise kit.errors.UnknownError('\\n'.join(f'row {n}' for n in range(40)))"
    )

    assert result[:3] == ["UnknownError: row 0", "row 1", "..."]
    assert len(result) <= MOST
    assert "row 39" in str(cells.shell.user_ns["sys"].last_value)


def test_handler_that_somebody_else_has_set_stays(
    bare_shell: InteractiveShell,
) -> None:
    bare_shell.set_custom_exc((OSError,), None)  # type: ignore[no-untyped-call]
    try:
        kit.load_ipython_extension(bare_shell)
        loaded = bare_shell.custom_exceptions
        kit.unload_ipython_extension(bare_shell)

        assert loaded == bare_shell.custom_exceptions == (OSError,)
    finally:
        bare_shell.set_custom_exc((), None)  # type: ignore[no-untyped-call]


def test_lines_that_the_engine_does_not_have_are_put_in() -> None:
    bare = f'  File "{__file__}", line 1, in step\nValueError: no\n'

    assert with_source(bare) == (
        f'  File "{__file__}", line 1, in step\n    {_first_line()}\nValueError: no\n'
    )
    assert with_source(with_source(bare)) == with_source(bare)


def _first_line() -> str:
    assert __doc__ is not None
    return f'"""{__doc__}"""'
