"""Models as the command line names them: loading, compiling, and errors in its own words."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import glow_nb
from glow_nb.backends import BackendLike
from glow_nb.base.arguments import Constants
from glow_nb.base.errors import GlowWarning, OptionError, UnboundDimension, UnboundInput
from glow_nb.base.feeds import name_feeds
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.types import Array, Dimensions, TensorType
from glow_nb.commands.bindings import Bindings
from glow_nb.commands.size_ranges import NO_SIZES, are_given, require_no_sizes
from glow_nb.hlir.graph import Function
from glow_nb.hlir.stages import decided_sizes, names_of
from glow_nb.llir.program import Program
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.loading import load_ir, load_open
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.open_model import sized_model
from glow_nb.network.shared_shapes import shapes_for_each
from glow_nb.network.staged import StagedNetwork
from glow_nb.network.text_files import SUFFIX

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import SymbolicModel

Signature = Mapping[str, Dimensions | None]


def load_model(
    model: Path, bindings: Bindings, sizes: Mapping[str, Any] = NO_SIZES
) -> Function | Program:
    """Return the graph or program in the file *model*; raise OptionError for unbound dimensions.

    If something is said of *sizes* that stay open, it is the graph with open sizes.
    """
    if are_given(sizes):
        return _load_open(model, bindings, sizes)
    check_bindings_apply(model, bindings)
    constants = bindings.constants(model)
    with hints(model):
        return load_ir(str(model), shapes=bindings.shapes, constants=constants)


def _load_open(model: Path, bindings: Bindings, sizes: Mapping[str, Any]) -> Function:
    ranges = SizeRanges.of(sizes["sizes"], sizes["hints"], fixed=bindings.shapes)
    opened = sized_model(open_model(model, bindings))
    if opened is None:
        require_no_sizes(model, sizes)
    assert opened is not None
    function, numbers = opened.open_function(ranges)
    for one in numbers:
        warnings.warn(
            f"size {one.name!r} is made {one.size}: {one.reason}", GlowWarning, stacklevel=3
        )
    return function


def load_one_program(
    model: Path, bindings: Bindings, sizes: Mapping[str, Any] = NO_SIZES
) -> Function | Program:
    """Return what :func:`load_model` does, for a command that shows what becomes of one program.

    Raises:
        OptionError: It has data-dependent sizes, so it becomes several.
    """
    loaded = load_model(model, bindings, sizes)
    require_one_program(model, loaded)
    return loaded


def require_one_program(model: Path, ir: Function | Program) -> None:
    """Raise OptionError if *ir*, which the file *model* holds, has data-dependent sizes."""
    decided = decided_sizes(ir) if isinstance(ir, Function) else ()
    if decided:
        raise OptionError(
            f"{model}: it has data-dependent sizes ({names_of(decided)}) and becomes several "
            "programs, and this command shows one; see 'glow-nb info --kernels', 'glow-nb "
            "profile', or 'glow-nb dump' with --after import or --level source"
        )


def load_with_open_sizes(model: Path, bindings: Bindings) -> Function | Program | SymbolicModel:
    """Return the graph or program in the file *model*, or a model some of whose sizes are open."""
    loaded = open_model(model, bindings)
    if isinstance(loaded, Function | Program) or loaded.has_open_sizes:
        return loaded
    return loaded.function({})


def open_model(
    model: Path, bindings: Bindings, *, for_training: bool = False
) -> Function | Program | SymbolicModel:
    """Return the file *model* with what *bindings* bind; sizes and defaults are left open."""
    check_bindings_apply(model, bindings)
    with hints(model):
        return load_open(
            str(model),
            shapes=bindings.shapes,
            constants=bindings.constants(model),
            for_training=for_training,
        )


def compile_model(
    model: Path,
    bindings: Bindings,
    backend: BackendLike,
    threads: int | None,
    *,
    without: tuple[str, ...] = (),
    constants: Constants | None = None,
    sizes: Mapping[str, Any] = NO_SIZES,
) -> Network:
    """Compile the file *model*; it is no CompiledNetwork if *bindings* leave sizes open.

    Of IR text there must be one function. Inputs are fixed by *bindings* and by *constants*. What
    is said of *sizes* that stay open is as ``compile`` takes it.
    """
    check_bindings_apply(model, bindings)
    if model.suffix == SUFFIX:
        load_ir(str(model))  # which says what to do where it has several functions
    return glow_nb.compile(
        str(model),
        backend=backend,
        threads=threads,
        without=without,
        shapes=bindings.shapes,
        constants={**bindings.constants(model), **(constants or {})},
        **sizes,
    )


def compile_fixed_model(
    model: Path,
    bindings: Bindings,
    backend: BackendLike,
    threads: int | None,
    *,
    without: tuple[str, ...] = (),
    sizes: Mapping[str, Any] = NO_SIZES,
) -> Network:
    """Compile the file *model*; raise OptionError if dimensions are left unbound.

    If something is said of *sizes* that stay open, they may.
    """
    with hints(model):
        network = compile_model(model, bindings, backend, threads, without=without, sizes=sizes)
    if not isinstance(network, CompiledNetwork) and not are_given(sizes):
        raise unbound_error(model, declared_shapes(network), may_stay_open=True)
    return network


def bindings_of_pair(one: Path, other: Path, bindings: Bindings) -> tuple[Bindings, Bindings]:
    """Return the *bindings* of the files *one* and *other*, which are compared.

    Each binds what it leaves open, and then takes the sizes of the other one's inputs.
    """
    names_only = replace(bindings, shapes={})
    pair = [open_model(model, names_only) for model in (one, other)]
    own, its = shapes_for_each(pair, bindings.shapes)
    return replace(bindings, shapes=own), replace(bindings, shapes=its)


def declared_shapes(network: Network) -> Signature:
    """Return the shape of each input, with the names of open sizes."""
    return {name: type.shape for name, type in network.inputs.items()}


def unbound_error(model: Path, signature: Signature, *, may_stay_open: bool = False) -> OptionError:
    """Return the error that says which ``--shape`` options *model* needs.

    Sizes that *may stay open* get the options for that, too.
    """
    names: dict[str, None] = {}
    for input_name, shape in signature.items():
        if shape is None:
            names[f"{input_name}=1x1"] = None
        else:
            names.update({f"{size}=1": None for size in shape if isinstance(size, str)})
    wheres = "; ".join(f"input {name!r} is {_show(shape)}" for name, shape in signature.items())
    example = " ".join(f"--shape {_quoted(name)}" for name in names)
    hints = " ".join(f"--hint {_quoted(name)}" for name in names if not name.endswith("=1x1"))
    more = f", or leave them open: {hints}" if may_stay_open and hints else ""
    return OptionError(f"{model}: its shapes are not fixed ({wheres}); give sizes: {example}{more}")


def _show(shape: Iterable[int | str] | None) -> str:
    return "of unknown rank" if shape is None else f"[{', '.join(map(str, shape))}]"


def _quoted(text: str) -> str:
    return text if text.replace("=", "").replace("_", "").isalnum() else f"'{text}'"


def check_bindings_apply(model: Path, bindings: Bindings) -> None:
    """Raise OptionError if *bindings* bind what is fixed in IR text."""
    if model.suffix == SUFFIX and bindings.names:
        bindings.require_open(model, load_ir(str(model)))


@contextmanager
def hints(model: Path) -> Iterator[None]:
    """Say by which options of the command that is bound which has to be."""
    try:
        yield
    except UnboundDimension as error:
        raise unbound_error(model, error.signature) from error
    except UnboundInput as error:
        raise fixed_by_options(error) from error


def fixed_by_options(error: UnboundInput) -> OptionError:
    """Return *error* with the options that fix the inputs it names."""
    options = " ".join(f"--constant {_quoted(f'{name}=VALUE')}" for name in error.names)
    return OptionError(f"{error}\nOn the command line: {options}")


def network_for(
    network: Network, feeds: Mapping[str, Array], sizes: Mapping[str, Any] = NO_SIZES
) -> Network:
    """Return the network whose inputs are those of *feeds*, of their shapes.

    If something is said of *sizes* that stay open, it is the *network*, which runs them.

    Raises:
        FeedError: They are not all inputs that must be fed, or others.
        OptionError, ModelError: Their shapes do not fit.
    """
    name_feeds(network.inputs.keys(), feeds, network.defaults.keys())
    if are_given(sizes):
        return network
    if isinstance(network, CompiledNetwork) and network.defaults.keys().isdisjoint(feeds):
        return network
    return network.prepare({name: array.shape for name, array in feeds.items()}).result()


def example_types(network: Network) -> dict[str, TensorType]:
    """Return the type of each input of *network*: for open sizes those that it is planned for."""
    one = program_of(network)
    shapes = one.border.example
    return {name: type.with_shape(shapes[name]) for name, type in one.border.inputs.items()}


def program_of(network: Network) -> CompiledNetwork:
    """Return *network*, or its program for all sizes; it has one of both."""
    if isinstance(network, DynamicNetwork):
        network = network.variants[0]
    assert isinstance(network, CompiledNetwork)
    return network


def stages_of(network: Network) -> tuple[Network, ...]:
    """Return the networks that *network* runs one after the other, itself if it has no stages."""
    one = program_of(network)
    return one.stages if isinstance(one, StagedNetwork) else (one,)
