"""The inputs and outputs of a model: names, and shapes with symbolic dimensions that are bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

import onnx

from glow_nb.base.errors import ModelError, OptionError, UnboundDimension, UnsupportedError
from glow_nb.base.schema import closest, listed
from glow_nb.base.types import Array, Dimensions, ElementKind, TensorType

Shapes = Mapping[str, int | Sequence[int]]
"""Sizes by symbol (``{"batch": 8}``), or whole shapes by input name (``{"x": (8, 3)}``)."""


def inputs_of(graph: onnx.GraphProto, place: str) -> list[onnx.ValueInfoProto]:
    """Return the inputs, those with a default among them; raise ModelError if two are the same."""
    _check_names([info.name for info in graph.input], "inputs", place)
    return list(graph.input)


def names_of_weights(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the initializers.

    That of an input is its default: the input need not be fed. Up to IR version 3 all initializers
    had to be listed as inputs.
    """
    dense = {tensor.name for tensor in graph.initializer}
    return dense.union(tensor.values.name for tensor in graph.sparse_initializer)


def opened_by(shapes: Shapes, name: str) -> bool:
    """Return whether *shapes* makes an input with a default one that is fed: by a whole shape."""
    return _whole_shape(shapes.get(name)) is not None


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
        d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else symbol_of(info, axis)
        for axis, d in enumerate(tensor.shape.dim)
    )


def symbol_of(info: onnx.ValueInfoProto, axis: int) -> str:
    """Return what an open dimension is called: its name, else the input and its place.

    ONNX says that a name is an identifier. What else exporters write there ("?", "None", "N/2")
    stands for a size that they do not know, and may stand for several.
    """
    name: str = info.type.tensor_type.shape.dim[axis].dim_param
    return name if name.isidentifier() and name != "None" else f"{info.name}[{axis}]"


def check_bindings(
    graph: onnx.GraphProto, place: str, shapes: Shapes, constants: Mapping[str, Array]
) -> None:
    """Check that *constants* fixes inputs of *graph*, and that *shapes* gives none of these sizes.

    Raises:
        ModelError: *constants* names something that is no input.
        OptionError: *shapes* names an input that is fixed, or a size that no other one has.
    """
    symbols = {info.name: set(map(str, declared_shape(info) or ())) for info in graph.input}
    for name in constants:
        if name not in symbols:
            raise ModelError(_no_input(place, name, symbols, names_of_weights(graph)))
    fixed = [name for name in symbols if name in constants]
    open_symbols = {n for name in symbols.keys() - constants.keys() for n in symbols[name]}
    for name, given in shapes.items():
        if not isinstance(given, int) and name in constants:
            raise OptionError(
                f"{place}: input {name!r} is fixed to {TensorType.of(constants[name])} by "
                f"constants=, and shapes= gives it the shape {list(given)}; leave it out of one"
            )
        owners = [owner for owner in fixed if name in symbols[owner]]
        if isinstance(given, int) and owners and name not in open_symbols:
            raise OptionError(
                f"{place}: dimension {name!r} is one of input {owners[0]!r} alone, which "
                "constants= fixes; leave it out of shapes="
            )
        if not isinstance(given, int) and name not in symbols and name in open_symbols:
            raise OptionError(
                f"{place}: {name!r} is a dimension and no input, and shapes= gives it "
                f"{list(given)}; give one size, or a range of them by sizes="
            )
        if not isinstance(given, int) and name not in symbols:
            raise OptionError(_no_input(place, name, symbols, names_of_weights(graph)))


def _no_input(place: str, name: str, inputs: Collection[str], weights: AbstractSet[str]) -> str:
    """Return what to say of a *name* that is none of the *inputs*."""
    if name in weights:
        return (
            f"{place}: {name!r} is a weight and no input, so its numbers and its shape stay those "
            f"of the model; its inputs are {listed(inputs)}"
        )
    return f"{place}: it has no input {name!r}{closest(name, inputs)}; it has {listed(inputs)}"


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

    A whole shape holds for its input, whatever its symbols are elsewhere.

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
    """Return the size of every symbol that *shapes* gives by its name, or by whole shapes.

    A symbol that whole shapes give several sizes has none.
    """
    symbols = {n for shape in signature.values() for n in shape or () if isinstance(n, str)}
    named: dict[str, int] = {}
    implied: dict[str, set[int]] = {}
    for name, given in shapes.items():
        if isinstance(given, int):
            _check_symbol(place, name, given, symbols)
            named[name] = given
            continue
        for symbol, size in _matched(place, name, signature[name], tuple(given)):
            implied.setdefault(symbol, set()).add(size)
    return {name: min(found) for name, found in implied.items() if len(found) == 1} | named


def _check_symbol(place: str, name: str, size: int, symbols: AbstractSet[str]) -> None:
    if name not in symbols:
        known = sorted(symbols)
        raise OptionError(
            f"{place}: it has no symbolic dimension {name!r}{closest(name, known)}; "
            f"it has {listed(known)}"
        )
    if size < 0:
        raise OptionError(f"{place}: dimension {name!r} cannot be {size}; give a size of 0 or more")


def _matched(
    place: str, name: str, declared: Dimensions | None, given: tuple[int, ...]
) -> list[tuple[str, int]]:
    """Return each symbol of the input called *name* with its size in the shape *given*."""
    if declared is None:
        return []
    known = [n for n in declared if isinstance(n, int)]
    fixed = [m for m, n in zip(given, declared, strict=False) if isinstance(n, int)]
    if len(given) != len(declared) or known != fixed:
        raise OptionError(
            f"{place}: input {name!r} is declared {list(declared)}, "
            f"which shape {list(given)} does not fit"
        )
    pairs = zip(declared, given, strict=True)
    return [(symbol, size) for symbol, size in pairs if isinstance(symbol, str)]
