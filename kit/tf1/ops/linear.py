"""Products of matrices."""

from __future__ import annotations

from typing import Any

from kit.tf1.tensor.convert import convert_to_tensor, create, op_scope


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Return the product of matrices; axes before the last two are broadcast.

    The hints about sparseness change nothing. Raises `ValueError` for vectors and for
    sizes that do not meet, `TypeError` for two dtypes.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("Only one of transpose and adjoint can be True.")
    with op_scope(name, "MatMul", [a, b]) as scope:
        left = convert_to_tensor(a, name="a")
        right = convert_to_tensor(b, name="b", dtype_hint=left.dtype.base_dtype)
        for is_adjoint, one in ((adjoint_a, left), (adjoint_b, right)):
            if is_adjoint and one.dtype.is_complex:
                raise TypeError("matmul takes no adjoint of complex matrices here.")
        turns = {
            "transpose_a": bool(transpose_a or adjoint_a),
            "transpose_b": bool(transpose_b or adjoint_b),
        }
        return create("MatMul", left, right, name=scope, **turns)
