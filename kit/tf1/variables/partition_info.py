"""Which part of a variable an initializer is asked for.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence


class PartitionInfo:
    """The shape of the whole, and where in it the part begins.

    Raises `TypeError` for anything but sequences, `ValueError` for an offset that is
    not within the whole.

    >>> part = PartitionInfo([7, 2], [3, 0])
    >>> part.single_slice_dim([2, 2]), part.single_offset([2, 2])
    (0, 3)
    """

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        whole = _sequence("full_shape", full_shape)
        offset = _sequence("var_offset", var_offset)
        is_within = len(whole) == len(offset) and all(
            0 <= begin < size for begin, size in zip(offset, whole, strict=True)
        )
        if not is_within:
            raise ValueError(
                f"Expected 0 <= offset < shape in each dimension, but found "
                f"var_offset={var_offset} and full_shape={full_shape}."
            )
        self._whole, self._offset = full_shape, var_offset

    @property
    def full_shape(self) -> Sequence[int]:
        """The shape of the whole."""
        return self._whole

    @property
    def var_offset(self) -> Sequence[int]:
        """Where the part begins, in each dimension."""
        return self._offset

    def single_offset(self, shape: Sequence[int]) -> int:
        """Return where a part of this shape begins, in the dimension that is cut.

        0 if none is. Raises as `single_slice_dim` does.
        """
        cut = self.single_slice_dim(shape)
        return 0 if cut is None else self._offset[cut]

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        """Return the dimension in which a part of this shape is cut; None if in none.

        Raises `TypeError` for anything that is not a sequence, `ValueError` for a part
        that does not lie in the whole, and for one that is cut in several dimensions.
        """
        sizes = _sequence("shape", shape)
        if len(sizes) != len(self._whole):
            raise ValueError(
                f"Expected equal length, but received shape={shape} and full_shape="
                f"{self._whole}."
            )
        places = list(zip(self._offset, sizes, self._whole, strict=True))
        if any(begin + size > whole for begin, size, whole in places):
            raise ValueError(
                f"With var_offset={self._offset}, a partition of shape={shape} would "
                f"exceed full_shape={self._whole}."
            )
        cut = [i for i, (_, size, whole) in enumerate(places) if size != whole]
        if len(cut) > 1:
            raise ValueError(
                f"Cannot use single_slice_dim() with shape={shape} and full_shape="
                f"{self._whole}: the dimensions {cut} are all cut."
            )
        return cut[0] if cut else None


def _sequence(name: str, given: Sequence[int]) -> Sequence[int]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(
            f"`{name}` must be a sequence (like tuple or list) instead of "
            f"{type(given).__name__}"
        )
    return given
