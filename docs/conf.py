"""How the site is built: `make docs`. Nothing is fetched, and a warning is an error."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]  # what lies beside this file

project = "psring"
author = "psring contributors"
copyright = author
version = release = version_of("psring")

extensions = [
    "myst_nb",  # pages in Markdown, and notebooks
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "solutions",  # beside this file
    "playing",  # the same
    "tooltips",  # the same
    "docstrings",  # the same; before napoleon, which reads what it leaves
    "sphinx.ext.napoleon",
]
napoleon_google_docstring = False
napoleon_use_rtype = False
exclude_patterns = ["_build", "**/.ipynb_checkpoints", "lessons/LICENSE"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

# The lessons run here as a reader runs them, on a cluster of this machine; what they
# showed is kept until one of their cells changes.
nb_custom_formats = {".ipynb": "solutions.read"}
nb_execution_mode = "cache"
nb_execution_cache_path = str(DOCS / "_build" / "lessons")
nb_execution_timeout = 90
nb_execution_raise_on_error = True
nb_merge_streams = True
# Live boards need a kernel. Their still pictures, which stand beside them, do not.
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_mime_priority_overrides = [
    ("html", "application/javascript", None),
    ("html", "application/vnd.jupyter.widget-view+json", None),
]
suppress_warnings = ["mystnb.mime_priority"]

default_role = "code"
smartquotes = False  # much of what is quoted is code
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the names of inner modules help no reader
python_use_unqualified_type_names = True
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"psring {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}
copybutton_prompt_text = "$ "


def setup(app: Sphinx) -> None:
    """Show what our documents fence with names of their own as plain text."""
    for name in ("output", "vector"):
        app.add_lexer(name, TextLexer)
