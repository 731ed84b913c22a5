"""Models as the command line names them: loading, compiling, and errors in its own words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import glow_nb
from glow_nb.backends import BackendLike
from glow_nb.base.arguments import Constants
from glow_nb.base.errors import OptionError, UnboundDimension, UnboundInput
from glow_nb.base.feeds import name_feeds
from glow_nb.base.types import Array, Dimensions
from glow_nb.commands.bindings import Bindings
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.loading import load_open
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.text_files import SUFFIX

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import SymbolicModel

Signature = Mapping[str, Dimensions | None]


def load_model(model: Path, bindings: Bindings) -> Function | Program:
    """Return the graph or program in the file *model*; raise OptionError for unbound dimensions."""
    check_bindings_apply(model, bindings)
    constants = bindings.constants(model)
    with hints(model):
        return glow_nb.load(str(model), shapes=bindings.shapes, constants=constants)


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
) -> Network:
    """Compile the file *model*; it is no CompiledNetwork if *bindings* leave sizes open.

    Of IR text there must be one function. Inputs are fixed by *bindings* and by *constants*.
    """
    check_bindings_apply(model, bindings)
    if model.suffix == SUFFIX:
        glow_nb.load(str(model))  # which says what to do where it has several functions
    return glow_nb.compile(
        str(model),
        backend=backend,
        threads=threads,
        without=without,
        shapes=bindings.shapes,
        constants={**bindings.constants(model), **(constants or {})},
    )


def compile_fixed_model(
    model: Path,
    bindings: Bindings,
    backend: BackendLike,
    threads: int | None,
    *,
    without: tuple[str, ...] = (),
    constants: Constants | None = None,
) -> CompiledNetwork:
    """Compile the file *model*; raise OptionError if dimensions are left unbound."""
    with hints(model):
        network = compile_model(
            model, bindings, backend, threads, without=without, constants=constants
        )
    if not isinstance(network, CompiledNetwork):
        raise unbound_error(model, declared_shapes(network))
    return network


def declared_shapes(network: Network) -> Signature:
    """Return the shape of each input, with the names of open sizes."""
    return {name: type.shape for name, type in network.inputs.items()}


def unbound_error(model: Path, signature: Signature) -> OptionError:
    """Return the error that says which ``--shape`` options *model* needs."""
    names: dict[str, None] = {}
    for input_name, shape in signature.items():
        if shape is None:
            names[f"{input_name}=1x1"] = None
        else:
            names.update({f"{size}=1": None for size in shape if isinstance(size, str)})
    wheres = "; ".join(f"input {name!r} is {_show(shape)}" for name, shape in signature.items())
    example = " ".join(f"--shape {_quoted(name)}" for name in names)
    return OptionError(f"{model}: its shapes are not fixed ({wheres}); give sizes: {example}")


def _show(shape: Iterable[int | str] | None) -> str:
    return "of unknown rank" if shape is None else f"[{', '.join(map(str, shape))}]"


def _quoted(text: str) -> str:
    return text if text.replace("=", "").replace("_", "").isalnum() else f"'{text}'"


def check_bindings_apply(model: Path, bindings: Bindings) -> None:
    """Raise OptionError if *bindings* bind what is fixed in IR text."""
    if model.suffix == SUFFIX and bindings.names:
        bindings.require_open(model, glow_nb.load(str(model)))


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


def network_for(network: Network, feeds: Mapping[str, Array]) -> CompiledNetwork:
    """Return the network whose inputs are those of *feeds*, of their shapes.

    Raises:
        FeedError: They are not all inputs that must be fed, or others.
        OptionError, ModelError: Their shapes do not fit.
    """
    name_feeds(network.inputs.keys(), feeds, network.defaults.keys())
    if isinstance(network, CompiledNetwork) and network.defaults.keys().isdisjoint(feeds):
        return network
    return network.prepare({name: array.shape for name, array in feeds.items()}).result()
