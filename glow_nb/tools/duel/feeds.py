"""Random inputs for an arbitrary model, and shapes for models with open sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer.dimensions import symbol_of

TOKENS = 100
"""Random whole numbers are below this: valid as tokens of any vocabulary."""


def random_feeds(model: onnx.ModelProto, seed: int = 7) -> dict[str, Array]:
    """Return seeded inputs for *model*, an open dimension being 1.

    Floats are normal with mean 0 and deviation 1; whole numbers are from 0 to 99, or 0 and 1 where
    the input's name contains the word mask; booleans are true.
    """
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for value in graph_inputs(model):
        shape = [dimension.dim_value or 1 for dimension in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if np.issubdtype(dtype, np.floating):
            feeds[value.name] = rng.normal(size=shape).astype(dtype)
        elif dtype == np.bool_:
            feeds[value.name] = np.ones(shape, dtype)
        else:
            most = 2 if "mask" in value.name.lower() else TOKENS
            feeds[value.name] = rng.integers(0, most, size=shape).astype(dtype)
    return feeds


def graph_inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs of *model* that are not initializers."""
    constants = {tensor.name for tensor in model.graph.initializer}
    constants.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    return [value for value in model.graph.input if value.name not in constants]


def bind(
    model: onnx.ModelProto,
    shapes: Mapping[str, int | Sequence[int]],
    constants: Mapping[str, Array],
    batch: int | None = None,
    *,
    leaves_open: bool = False,
) -> None:
    """Give the open dimensions of *model* their sizes, and make *constants* of inputs.

    Args:
        model: Changed in place.
        shapes: Sizes of symbolic dimensions by name, or whole shapes by input name.
        constants: Numbers of inputs, of the kinds that these have.
        batch: Size of the first dimension of every input that is left.
        leaves_open: Dimensions may be left without a size.

    Raises:
        OptionError: As :func:`bind_shapes`.
    """
    graph = model.graph
    for name, array in constants.items():
        for field in (graph.input, graph.initializer):
            for index in reversed(range(len(field))):
                if field[index].name == name:
                    del field[index]
        graph.initializer.append(numpy_helper.from_array(array, name))
    bind_shapes(model, shapes, batch, leaves_open=leaves_open)


def bind_shapes(
    model: onnx.ModelProto,
    shapes: Mapping[str, int | Sequence[int]],
    batch: int | None = None,
    *,
    leaves_open: bool = False,
) -> None:
    """Give the open dimensions of *model* their sizes.

    Args:
        model: Changed in place.
        shapes: Sizes of symbolic dimensions by name, or whole shapes by input name.
        batch: Size of the first dimension of every input.
        leaves_open: Dimensions may be left without a size.

    Raises:
        OptionError: A name is unknown, a fixed dimension has another size, or one is left that may
            not be.
    """
    sizes = {name: size for name, size in shapes.items() if isinstance(size, int)}
    known = {value.name for value in graph_inputs(model)}
    known |= {symbol_of(value, axis) for value, axis in _open_dimensions(model)}
    for name in shapes:
        if name not in known:
            raise OptionError(
                f"--shape {name}: the model has no such input or dimension; it has "
                f"{', '.join(sorted(known))}"
            )
    for value in graph_inputs(model):
        whole = shapes.get(value.name)
        if not isinstance(whole, int) and whole is not None:
            sizes |= _bind_whole(value, tuple(whole))
        if batch is not None and value.type.tensor_type.shape.dim:
            sizes |= _bind(value, 0, batch)
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            size = sizes.get(symbol_of(value, axis))
            if size is not None and not dimension.HasField("dim_value"):
                dimension.dim_value = size
    if not leaves_open:
        _require_sizes(model)


def _require_sizes(model: onnx.ModelProto) -> None:
    """Raise OptionError if an input of *model* has a dimension without a size."""
    unranked = [v for v in graph_inputs(model) if not v.type.tensor_type.HasField("shape")]
    left = [f"{v.name!r}" for v in (*unranked, *(v for v, _ in _open_dimensions(model)))]
    if left:
        raise OptionError(
            f"input {', '.join(dict.fromkeys(left))}: has dimensions without a size; give them "
            "with --shape NAME=SIZE or --batch"
        )


def _bind_whole(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> dict[str, int]:
    """Give *value* the *shape*; return the sizes of its symbolic dimensions."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        for size in shape:
            tensor.shape.dim.add().dim_value = size
        return {}
    if len(tensor.shape.dim) != len(shape):
        raise OptionError(
            f"--shape {value.name}: {list(shape)} has {len(shape)} dimensions, the input "
            f"{len(tensor.shape.dim)}"
        )
    sizes: dict[str, int] = {}
    for index, size in enumerate(shape):
        sizes |= _bind(value, index, size)
    return sizes


def _bind(value: onnx.ValueInfoProto, index: int, size: int) -> dict[str, int]:
    """Give dimension *index* of *value* its *size*; return it under its name if it was open."""
    dimension = value.type.tensor_type.shape.dim[index]
    if dimension.HasField("dim_value") and dimension.dim_value != size:
        raise OptionError(
            f"input {value.name!r}: dimension {index} is fixed to {dimension.dim_value}, not "
            f"{size}; export the model with an open dimension there"
        )
    if dimension.HasField("dim_value"):
        return {}
    name = symbol_of(value, index)
    dimension.dim_value = size
    return {name: size}


def open_names(model: onnx.ModelProto) -> list[str]:
    """Return the names of the dimensions of inputs of *model* without a size, each once."""
    return list(dict.fromkeys(symbol_of(value, axis) for value, axis in _open_dimensions(model)))


def _open_dimensions(model: onnx.ModelProto) -> Iterator[tuple[onnx.ValueInfoProto, int]]:
    """Yield the input and the axis of each dimension without a size."""
    for value in graph_inputs(model):
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if not dimension.HasField("dim_value"):
                yield value, axis
