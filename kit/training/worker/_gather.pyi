from typing import Any

def gather(
    values: dict[str, Any], places: dict[str, Any], position: int, /
) -> int: ...
