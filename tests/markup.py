"""The law that one file builds HTML, so that no text gets into it unescaped.

A text with tags is the first argument of `markup` or `Html`, as it stands in the
source; what is filled in goes through `markup`. What a library takes for HTML has one
door.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from tests.source import Source

_TAGS = (
    "a b body br button caption circle code defs details div fieldset figcaption "
    "figure footer form g h1 h2 h3 head header html i iframe img input label legend li "
    "line main meta noscript object ol option p path pattern pre polygon polyline rect "
    "script section select small span strong style summary svg table tbody td text "
    "tfoot th thead title tr u ul use"
)
_HTML = re.compile(
    rf"(?<!\?P)</?(?:{_TAGS.replace(' ', '|')})(?=[\s>/]|$)|<!doctype|&(?:\w+|#x?\w+);"
    r"""|^\s*[\w-]+=["'][^"']*["']?\s*$""",  # an attribute
    re.IGNORECASE,
)
# Where HTML comes from that is neither ours nor built here, and why it may.
_BUILT_ELSEWHERE = {
    "kit/markup.py": "the function itself",
    "widgets/drawing/document.py": "bokeh's own scripts, in which it escapes the data",
}
# What shows HTML, and the file that may use it.
_SHOWS_HTML = {
    "ipywidgets.HTML": "widgets/drawing/html_view.py",
    "ipywidgets.HTMLMath": "",
    "IPython.display.HTML": "",
    "IPython.display.Markdown": "",
    "IPython.display.Latex": "",
    "IPython.display.SVG": "",
    "bokeh.models.Div": "",
    "bokeh.models.PreText": "",
    "bokeh.models.Paragraph": "",
    "bokeh.models.Tooltip": "",
    "bokeh.models.HTMLTemplateFormatter": "",
    "bokeh.models.dom": "",
}
_MODULES = {"ipw": "ipywidgets", "models": "bokeh.models"}
_REPRS = ("_repr_html_", "_repr_svg_")
_BARRED_REPRS = ("_repr_markdown_", "_repr_latex_", "_repr_javascript_")
# Most files have none of these; a walk through a tree takes long.
_MAYBE = re.compile(
    rf"</?(?:{_TAGS.replace(' ', '|')})\b|&#?\w+;|=\\?[\"'][^\"']*[\"']\s*['\"]"
    r"|Html\(|markup\(|ipywidgets|IPython|bokeh|_repr_|text/html"
)


def html_is_built_by_one_function(file: Source) -> Iterator[str]:
    if not file.path.startswith(("kit/", "widgets/")):
        return
    if not _MAYBE.search(file.text):
        return
    nodes = list(ast.walk(ast.parse(file.text)))
    for line, what in [*_unescaped(nodes, file.path), *_shown(nodes, file)]:
        yield f"{file.path}:{line}: {what}; fill values in with kit.markup.markup"


def _unescaped(nodes: Sequence[ast.AST], path: str) -> Iterator[tuple[int, str]]:
    """Yield texts with tags that stand anywhere else than in a template."""
    allowed = {id(text) for text in _docstrings(nodes)}
    for node in nodes:
        if isinstance(node, ast.Call) and _name(node.func) in ("markup", "Html"):
            if node.args and isinstance(node.args[0], ast.Constant):
                allowed.add(id(node.args[0]))
            elif node.args and path not in _BUILT_ELSEWHERE:
                yield node.lineno, f"{_name(node.func)} of what is not in the source"
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [p for p in node.values if isinstance(p, ast.Constant)]
            allowed |= {id(part) for part in parts}
            text = "\0".join(str(part.value) for part in parts)
            if _HTML.search(text):
                yield node.lineno, "HTML in an f-string"
    for node in nodes:
        if not isinstance(node, ast.Constant) or id(node) in allowed:
            continue
        if isinstance(node.value, str) and _HTML.search(node.value):
            yield node.lineno, "HTML in a plain text"


def _shown(nodes: Sequence[ast.AST], file: Source) -> Iterator[tuple[int, str]]:
    """Yield what shows a text as HTML without a look at its type."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name in _REPRS:
            returned = ast.unparse(node.returns) if node.returns else "nothing"
            if returned not in ("Html", "Html | None"):
                yield node.lineno, f"{node.name} says that it returns {returned}"
            if node.name == "_repr_html_" and "in_cell(" not in ast.unparse(node):
                yield node.lineno, f"{node.name} does not return kit.markup.in_cell"
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, map(ast.unparse, node.values), strict=True)
            for key, value in pairs:
                is_html = isinstance(key, ast.Constant) and key.value == "text/html"
                if is_html and not value.startswith("in_cell("):
                    yield node.lineno, f"{value} is not in kit.markup.in_cell"
        if isinstance(node, ast.FunctionDef) and node.name in _BARRED_REPRS:
            yield node.lineno, f"{node.name} is read as another markup"
        if isinstance(node, ast.Attribute) and _name(node.value) in _MODULES:
            name = f"{_MODULES[_name(node.value)]}.{node.attr}"
            if file.path != _SHOWS_HTML.get(name, file.path):
                yield node.lineno, f"{name} takes any text for HTML"
    for name, line in file.imports.items():
        if name in _SHOWS_HTML and file.path != _SHOWS_HTML[name]:
            yield line, f"{name} takes any text for HTML"


def _docstrings(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


BREAK_IT = [
    ("kit/x.py", 'def f(name):\n    return f"<td>{name}</td>"'),
    ("kit/x.py", "def f(name):\n    return '<td>' + name + '</td>'"),
    ("kit/x.py", 'def f(name):\n    return "<td>%s</td>" % name'),
    ("kit/x.py", "def f(name):\n    return f' title=\"{name}\"'"),
    ("kit/x.py", "def f(name):\n    return Html(name)"),
    ("widgets/x.py", 'def f(name):\n    return markup(f"{name}")'),
    ("widgets/x.py", "import ipywidgets as ipw\nipw.HTML(name)"),
    ("widgets/x.py", "from bokeh.models import Div"),
    ("widgets/x.py", "from IPython.display import HTML"),
    ("kit/x.py", "class A:\n    def _repr_html_(self) -> str: ..."),
    (
        "kit/x.py",
        "class A:\n    def _repr_html_(self) -> Html: return element('p', self.name)",
    ),
    ("widgets/x.py", "from kit.markup import Html\nshown = {'text/html': NO_HTML}"),
    ("kit/x.py", "class A:\n    def _repr_markdown_(self) -> str: ..."),
]
