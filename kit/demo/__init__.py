"""The demonstration: real models on real data, and what their training moves."""

from importlib.util import find_spec

from kit.errors import NotFoundError


def check_installed() -> None:
    """Raise `NotFoundError` if a package of the extra `demo` is not installed."""
    needed = {"sklearn": "scikit-learn", "tqdm": "tqdm"}
    missing = [name for module, name in needed.items() if find_spec(module) is None]
    if missing:
        raise NotFoundError(
            f"The demonstration needs {' and '.join(missing)}. "
            "Install what is missing with: pip install 'psring[demo]'"
        )
