"""Sizes of networks that are compared: each takes those that it leaves open, from the other too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from glow_nb.base.arguments import Shapes
from glow_nb.base.types import Dimensions
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.open_model import sized_model

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import SymbolicModel

Signature = Mapping[str, Dimensions | None]


def shapes_for_each(
    models: Sequence[Function | Program | SymbolicModel], shapes: Shapes
) -> list[Shapes]:
    """Return the sizes that each of *models* is to be loaded with, which are compared.

    Each gets those of *shapes* that it leaves open; it is enough if one of them does. Inputs whose
    sizes are still open get the shapes that they have in another model. What is open in no model
    goes to those with open sizes, or to all of them, which refuse it.

    Args:
        models: As loaded with open sizes, and none of *shapes*.
        shapes: Sizes of symbolic dimensions by name, or whole shapes by input name.
    """
    signatures = [_signature(model) for model in models]
    names = [_open_names(signature) for signature in signatures]
    own: list[dict[str, int | Sequence[int]]] = [
        {name: size for name, size in shapes.items() if name in known} for known in names
    ]
    unknown = {name: size for name, size in shapes.items() if not any(name in n for n in names)}
    for given, known in zip(own, names, strict=True):
        if known or not any(names):
            given.update(unknown)
    bound = [_bound(each, given) for each, given in zip(signatures, own, strict=True)]
    for given, signature in zip(own, bound, strict=True):
        for name in [name for name, shape in signature.items() if not _is_known(shape)]:
            found = next((each[name] for each in bound if _is_known(each.get(name))), None)
            if found is not None:
                given[name] = tuple(n for n in found if isinstance(n, int))
    return list[Shapes](own)


def _signature(model: Function | Program | SymbolicModel) -> Signature:
    opened = sized_model(model)
    if opened is not None:
        return {name: type.shape for name, type in opened.inputs.items()}
    assert isinstance(model, Function | Program)
    return {value.name: value.type.shape for value in model.inputs}


def _open_names(signature: Signature) -> set[str]:
    """Return the open sizes of *signature*, and the inputs that have some."""
    inputs = {name for name, shape in signature.items() if not _is_known(shape)}
    sizes = {n for shape in signature.values() for n in shape or () if isinstance(n, str)}
    return inputs | sizes


def _bound(signature: Signature, shapes: Shapes) -> Signature:
    sizes = {name: size for name, size in shapes.items() if isinstance(size, int)}
    whole = {name: tuple(size) for name, size in shapes.items() if not isinstance(size, int)}
    return {
        name: whole.get(
            name, shape and tuple(sizes.get(n, n) if isinstance(n, str) else n for n in shape)
        )
        for name, shape in signature.items()
    }


def _is_known(shape: Dimensions | None) -> bool:
    return shape is not None and all(isinstance(n, int) for n in shape)
