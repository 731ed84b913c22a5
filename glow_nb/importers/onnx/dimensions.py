"""What a model is fed and returns: names, and shapes with symbolic dimensions that are bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx

from glow_nb.errors import ModelError, OptionError, UnboundDimension, UnsupportedError
from glow_nb.schema import closest
from glow_nb.types import Array, Dimensions, ElementKind, TensorType

Shapes = Mapping[str, int | Sequence[int]]
"""Sizes by symbol (``{"batch": 8}``), or whole shapes by input name (``{"x": (8, 3)}``)."""


def inputs_of(graph: onnx.GraphProto, place: str) -> list[onnx.ValueInfoProto]:
    """Return the inputs that are no weights, which old models list, too."""
    _check_names([info.name for info in graph.input], "inputs", place)
    weights = {tensor.name for tensor in graph.initializer}
    weights.update(tensor.values.name for tensor in graph.sparse_initializer)
    return [info for info in graph.input if info.name not in weights]


def names_of_outputs(graph: onnx.GraphProto, place: str) -> list[str]:
    """Return the names of the outputs; raise ModelError if two are the same."""
    names = [info.name for info in graph.output]
    _check_names(names, "outputs", place)
    return names


def _check_names(names: Sequence[str], what: str, place: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ModelError(f"{place}: two {what} are called {twice[0]!r}; rename one")


def check_constant(info: onnx.ValueInfoProto, kind: ElementKind, array: Array, where: str) -> None:
    """Raise ModelError unless an input of *kind* may be fixed to *array*."""
    shape = declared_shape(info)
    fits = shape is None or (
        len(shape) == array.ndim
        and all(isinstance(n, str) or n == m for n, m in zip(shape, array.shape, strict=True))
    )
    if array.dtype != kind.dtype or not fits:
        raise ModelError(
            f"{where} is declared {kind.value}{list(shape or ())}, the constant given for it "
            f"is {TensorType.of(array)}"
        )


def declared_shape(info: onnx.ValueInfoProto) -> Dimensions | None:
    """Return the shape of an input: a size or a symbol each, None if its rank is not given.

    A dimension without name is called after the input and its place: ``data[0]``.
    """
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(
        d.dim_value
        if d.HasField("dim_value") and d.dim_value >= 0
        else d.dim_param or f"{info.name}[{axis}]"
        for axis, d in enumerate(tensor.shape.dim)
    )


def check_tensor_input(info: onnx.ValueInfoProto, place: str) -> None:
    """Raise UnsupportedError unless the input is a dense tensor."""
    kind = info.type.WhichOneof("value")
    if kind == "tensor_type":
        return
    if kind is None:
        raise ModelError(f"{place}: input {info.name!r} has no type; export the model again")
    raise UnsupportedError(
        f"{place}: input {info.name!r} is a {kind.removesuffix('_type')}; "
        "only tensors are supported"
    )


def bind_shapes(
    place: str, signature: Mapping[str, Dimensions | None], shapes: Shapes
) -> dict[str, tuple[int, ...]]:
    """Return the shape of every input, with symbols replaced.

    Raises:
        UnboundDimension: A symbol, or an input of unknown rank, is not in *shapes*.
        OptionError: *shapes* names something that is not in the model, or contradicts it.
    """
    bound = partly_bound(place, signature, shapes)
    missing: dict[str, None] = {}
    for name, shape in bound.items():
        names = [name] if shape is None else [n for n in shape if isinstance(n, str)]
        missing.update(dict.fromkeys(names))
    if missing:
        raise UnboundDimension(place, list(missing), signature)
    return known_shapes(bound)


def partly_bound(
    place: str, signature: Mapping[str, Dimensions | None], shapes: Shapes
) -> dict[str, Dimensions | None]:
    """Return *signature* with the sizes that *shapes* gives; raise OptionError as above."""
    sizes = symbol_sizes(place, signature, shapes)
    bound: dict[str, Dimensions | None] = {}
    for name, shape in signature.items():
        whole = _whole_shape(shapes.get(name))
        declared = None if shape is None else with_sizes(shape, sizes)
        bound[name] = declared if whole is None else whole
    return bound


def with_sizes(shape: Dimensions, sizes: Mapping[str, int]) -> Dimensions:
    """Return *shape* with the names replaced that *sizes* has."""
    return tuple(sizes.get(n, n) if isinstance(n, str) else n for n in shape)


def known_shapes(bound: Mapping[str, Dimensions | None]) -> dict[str, tuple[int, ...]]:
    """Return those shapes that are known whole."""
    return {
        name: tuple(n for n in shape if isinstance(n, int))
        for name, shape in bound.items()
        if shape is not None and all(isinstance(n, int) for n in shape)
    }


def _whole_shape(given: int | Sequence[int] | None) -> tuple[int, ...] | None:
    return None if given is None or isinstance(given, int) else tuple(given)


def symbol_sizes(
    place: str, signature: Mapping[str, Dimensions | None], shapes: Shapes
) -> dict[str, int]:
    """Return the size of every symbol that *shapes* gives, directly or by a whole shape."""
    symbols = {n for shape in signature.values() for n in shape or () if isinstance(n, str)}
    sizes: dict[str, int] = {}
    for name, given in shapes.items():
        if isinstance(given, int):
            if name not in symbols:
                known = sorted(symbols)
                raise OptionError(
                    f"{place}: it has no symbolic dimension {name!r}{closest(name, known)}; "
                    f"it has {known}"
                )
            _set_size(place, sizes, name, given)
            continue
        if name not in signature:
            raise OptionError(f"{place}: it has no input {name!r}{closest(name, signature)}")
        _match(place, name, signature[name], tuple(given), sizes)
    return sizes


def _match(
    place: str,
    name: str,
    declared: Dimensions | None,
    given: tuple[int, ...],
    sizes: dict[str, int],
) -> None:
    if declared is None:
        return
    known = [n for n in declared if isinstance(n, int)]
    fixed = [m for m, n in zip(given, declared, strict=False) if isinstance(n, int)]
    if len(given) != len(declared) or known != fixed:
        raise OptionError(
            f"{place}: input {name!r} is declared {list(declared)}, "
            f"which shape {list(given)} does not fit"
        )
    for size, symbol in zip(given, declared, strict=True):
        if isinstance(symbol, str):
            _set_size(place, sizes, symbol, size)


def _set_size(place: str, sizes: dict[str, int], symbol: str, size: int) -> None:
    if size < 0:
        raise OptionError(
            f"{place}: dimension {symbol!r} cannot be {size}; give a size of 0 or more"
        )
    if sizes.setdefault(symbol, size) != size:
        raise OptionError(
            f"{place}: dimension {symbol!r} is bound to both {sizes[symbol]} and {size}; "
            "it must have one size"
        )
