"""The element kinds of ONNX by code and by name, and those of ours that they are."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from glow_nb.base.errors import ModelError, UnsupportedError
from glow_nb.base.types import ElementKind

_KIND_NAMES: Mapping[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.DOUBLE: "float64",
}


def kind_of(code: int, place: str) -> ElementKind:
    """Return the element kind of an ONNX type *code*.

    Raises:
        UnsupportedError: ONNX has the type and we do not: strings, complex numbers.
        ModelError: ONNX has no such type.
    """
    if code not in onnx.TensorProto.DataType.values() or code == onnx.TensorProto.UNDEFINED:
        raise ModelError(f"{place}: {code} is not an ONNX element type; the file may be damaged")
    try:
        return ElementKind(type_name(code))
    except ValueError:
        known = ", ".join(kind.value for kind in ElementKind)
        raise UnsupportedError(
            f"{place}: element type {type_name(code)} is not supported; "
            f"convert it to one of {known}"
        ) from None


def type_name(code: int) -> str:
    """Return the name of an ONNX type *code*: that of our kind if there is one."""
    name = onnx.TensorProto.DataType.Name(code).lower()
    return _KIND_NAMES.get(code, name)


def code_of(kind: ElementKind) -> int:
    """Return the ONNX type code of an element kind."""
    return int(onnx.helper.np_dtype_to_tensor_dtype(kind.dtype))


def tensor_type(kind: ElementKind) -> str:
    """Return what a definition calls tensors of *kind*, which releases of onnx may not know yet."""
    names = {ElementKind.FLOAT32: "float", ElementKind.FLOAT64: "double"}
    return f"tensor({names.get(kind, kind.value)})"
