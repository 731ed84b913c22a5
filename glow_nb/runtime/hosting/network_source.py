"""The kinds of networks that a host takes, and the graph or plan of each for each batch size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from glow_nb.base.errors import GlowError, OptionError, UnboundDimension
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.schema import listed
from glow_nb.base.types import TensorType
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.loading import Graph, load_ir
from glow_nb.network.open_model import sized_model
from glow_nb.network.sized_model import SizedModel
from glow_nb.runtime.hosting.batching import batch_sizes, listed_types
from glow_nb.runtime.hosting.dataflow import Dataflow
from glow_nb.runtime.planning.partitioning import Partitioning

Planned = Graph | Partitioning
Servable = Planned | Callable[[int], Planned]
"""What ``glow_nb.load`` takes, a plan, or a function from batch size to one of these."""


def sized_source(network: Servable) -> Servable | SizedModel:
    """Return *network* as a model to be had for given sizes, if it leaves some open."""
    if callable(network) or isinstance(network, Partitioning):
        return network
    loaded = _loaded(network)
    return network if isinstance(loaded, Function | Program) else loaded


def plans_of(
    name: str, network: Servable | SizedModel, max_batch: int
) -> Mapping[int, Function | Partitioning]:
    """Return the network called *name* for each batch size up to *max_batch*.

    Raises:
        OptionError: It has one size only, and *max_batch* is more than 1.
        GlowError: It cannot be read, as ``glow_nb.load`` says.
    """
    sizes = batch_sizes(max_batch)
    if callable(network):
        return {rows: _built(name, network, rows) for rows in sizes}
    if isinstance(network, Partitioning):
        return _one_size(name, network, max_batch)
    loaded = network if isinstance(network, SizedModel) else _loaded(network)
    if isinstance(loaded, Function | Program):
        return _one_size(name, _as_function(name, loaded), max_batch)
    symbols = open_batch(name, loaded)
    return {rows: loaded.function(dict.fromkeys(symbols, rows)) for rows in sizes}


def _loaded(network: Graph) -> Function | Program | SizedModel:
    """Return what *network* is: of fixed sizes, or a model that leaves some open."""
    try:
        loaded = load_ir(network)
    except UnboundDimension:  # which only an ONNX model raises
        from glow_nb.formats.onnx.importer import SymbolicModel, load_model

        return SymbolicModel(load_model(cast(str, network)), {}, {})
    return sized_model(loaded) or loaded


def has_state(plans: Mapping[int, Function | Partitioning]) -> bool:
    """Return whether runs of the network change it."""
    for plan in plans.values():
        if isinstance(plan, Partitioning):
            if any(part.program.state for part in plan.parts):
                return True
        elif plan.state:
            return True
    return False


def _one_size(
    name: str, network: Function | Partitioning, max_batch: int
) -> Mapping[int, Function | Partitioning]:
    if max_batch == 1:
        return {1: network}
    raise OptionError(
        f"network {name!r}: max_batch={max_batch}, but its sizes are fixed; give a model "
        "whose leading dimension is open, or a function from batch size to graph"
    )


def _built(name: str, build: Callable[[int], Planned], rows: int) -> Function | Partitioning:
    """Return what a function of a user makes of a batch size."""
    with foreign(GlowError, f"network {name!r}: {name_of(build)}({rows})"):
        made = build(rows)
    return made if isinstance(made, Partitioning) else _as_function(name, load_ir(made))


def _as_function(name: str, loaded: Function | Program) -> Function:
    if isinstance(loaded, Program):
        raise OptionError(
            f"network {name!r}: it is a program; give the graph that it was made from"
        )
    if loaded.sizes:
        opened = listed(symbol.name for symbol in loaded.sizes)
        raise OptionError(
            f"network {name!r}: the graph of one batch size leaves {opened} open; give these, "
            "glow_nb.load(function, shapes={...})"
        )
    return loaded


def open_batch(name: str, model: SizedModel) -> tuple[str, ...]:
    """Return the only sizes that *model*, called *name*, leaves open: the leading ones of inputs.

    There may be several names for them: exporters leave such sizes unnamed.

    Raises:
        OptionError: An input has no open leading size, or others are open, too.
    """
    shapes = {key: type.shape or (0,) for key, type in model.inputs.items()}
    leading = {shape[0]: None for shape in shapes.values() if isinstance(shape[0], str)}
    others = {size for shape in shapes.values() for size in shape[1:] if isinstance(size, str)}
    if all(isinstance(shape[0], str) for shape in shapes.values()) and not others - {*leading}:
        return tuple(map(str, leading))
    raise OptionError(
        f"network {name!r}: for given batch sizes, only the leading dimension of all inputs may be "
        f"open ({listed_types(model.inputs)}); load it with shapes= for the others"
    )


def check_batched(name: str, flows: list[Dataflow]) -> None:
    """Raise OptionError unless *flows* differ in the leading dimension alone, the batch."""
    wanted = _rest(flows[0])
    for flow in flows:
        for value, type in {**flow.inputs, **flow.outputs}.items():
            if not type.shape or type.shape[0] != flow.rows:
                raise OptionError(
                    f"network {name!r}: {value!r} is {type} for a batch of {flow.rows}; requests "
                    "run together only where the leading dimension of each input and output is "
                    "the batch: use max_batch=1"
                )
        if _rest(flow) != wanted or flow.counted:
            raise OptionError(
                f"network {name!r}: for batches of {flows[0].rows} and {flow.rows} its inputs and "
                "outputs differ in more than that, or have data-dependent sizes: use "
                "max_batch=1"
            )


def _rest(flow: Dataflow) -> dict[str, TensorType]:
    """Return the types of one row by name."""
    return {
        name: type.with_shape(type.shape[1:])
        for name, type in {**flow.inputs, **flow.outputs}.items()
    }
