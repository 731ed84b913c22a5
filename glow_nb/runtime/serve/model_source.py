"""From the files of a model to what a host loads: sizes that are bound, and which stay open."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from glow_nb.base.arguments import Shapes
from glow_nb.base.errors import GlowError, ModelError, OptionError, UnboundDimension
from glow_nb.base.size import symbols_of
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.types import Array, SymbolicType
from glow_nb.hlir.graph import Function
from glow_nb.hlir.stages import decided_sizes
from glow_nb.hlir.with_sizes import with_sizes
from glow_nb.llir.program import Program
from glow_nb.network.loading import load_ir
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.sized_model import SizedModel
from glow_nb.network.text_files import SUFFIX
from glow_nb.runtime.hosting.network_source import Servable, open_batch
from glow_nb.runtime.serve.repository import ModelFile
from glow_nb.runtime.serve.rows import dependence_of_rows
from glow_nb.runtime.serve.stamp import Stamp

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import SymbolicModel
    from glow_nb.formats.onnx.importer.model import Model

MOST_ROWS = 256
"""The most rows of a request where the server is given no other number."""

Inputs = Mapping[str, SymbolicType]


def _no_constants(_: Inputs) -> Mapping[str, Array]:
    return {}


@dataclass(frozen=True)
class LoadOptions:
    """The options for loading each model.

    Attributes:
        duplicates: Copies of it; None for as many as there are empty devices.
        max_batch: Rows that run together, of models whose leading size is open.
        max_delay: Seconds that a batch waits for more rows.
        max_rows: Rows of a request, of models whose leading size is open.
        shapes: Sizes by name, and shapes by input; a model takes those that it has.
        constants: From the inputs of a model to the numbers of those that are fixed.
        sizes: The least and the greatest of sizes that stay open, by name; likewise.
        hints: Sizes by name that the code is planned for; likewise.
    """

    duplicates: int | None = 1
    max_batch: int = 1
    max_delay: float = 0.0
    max_rows: int = MOST_ROWS
    shapes: Shapes | None = None
    constants: Callable[[Inputs], Mapping[str, Array]] = _no_constants
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    hints: Mapping[str, int] = field(default_factory=dict)

    def ranges(self, names: Collection[str]) -> SizeRanges:
        """Return what is said of open sizes called *names*; raise OptionError if it is wrong."""
        sizes, hints = (
            {name: given for name, given in said.items() if name in names}
            for said in (self.sizes, self.hints)
        )
        return SizeRanges.of(sizes, hints, fixed=self.shapes or {})


@dataclass(frozen=True)
class ModelSource:
    """A model that has been read.

    Attributes:
        network: The network for a host.
        stamp: The state of its files before they were read.
        has_rows: Whether its leading size is open, so that a request may have several rows.
        note: Why it is not served by rows, although its leading size is open; empty otherwise.
        names: The names of its open sizes and inputs, as it declares them.
    """

    network: Servable
    stamp: Stamp
    has_rows: bool = False
    note: str = ""
    names: frozenset[str] = frozenset()

    @property
    def is_open(self) -> bool:
        """Return whether one program takes all sizes."""
        return isinstance(self.network, Function) and bool(self.network.sizes)


def read_source(file: ModelFile, options: LoadOptions) -> ModelSource:
    """Read the model in *file*, with the sizes and the constants that *options* give.

    Raises:
        ModelError: There is no program for all sizes, and others than the leading one of all inputs
            are open.
        GlowError: It cannot be read, as ``glow_nb.load`` says.
    """
    own = [file.path] if file.configuration is None else [file.path, file.configuration]
    if file.path.suffix == SUFFIX:
        constants = Path(os.path.realpath(file.path)).with_suffix(".npz")
        stamp = Stamp.of([*own, constants])
        return _of_text(load_ir(str(file.path)), stamp, options)
    from glow_nb.formats.onnx.importer import (
        SymbolicModel,
        declared_inputs,
        import_onnx,
        load_model,
    )

    stamp = Stamp.of(own)
    model = load_model(str(file.path))
    stamp = stamp.with_files(_data_files(file.path, model))
    inputs = declared_inputs(model)
    sizes = {size for type in inputs.values() for size in type.shape or () if isinstance(size, str)}
    names = frozenset({*sizes, *inputs})
    shapes = {name: given for name, given in (options.shapes or {}).items() if name in names}
    fixed = options.constants(inputs)
    try:
        network = import_onnx(model, shapes=shapes, constants=fixed)
    except UnboundDimension:
        opened = SymbolicModel(model, shapes, fixed)
    else:
        return ModelSource(network, stamp, names=names)
    function = _for_all_sizes(opened, options.ranges(names - shapes.keys()))
    if function is not None:
        return _open_source(function, stamp, names)
    return _with_rows(file, opened, stamp, names, options.max_batch)


def _of_text(loaded: Function | Program, stamp: Stamp, options: LoadOptions) -> ModelSource:
    """Return the source of IR text."""
    if not isinstance(loaded, Function) or not loaded.sizes:
        return ModelSource(loaded, stamp)
    model = OpenFunction(loaded)
    names = frozenset({*model.inputs, *(symbol.name for symbol in model.symbols)})
    shapes = {name: given for name, given in (options.shapes or {}).items() if name in names}
    if shapes:
        return ModelSource(model.function(shapes), stamp, names=names)
    function = model.open_function(options.ranges(names))[0]
    return _open_source(function, stamp, names)


def _for_all_sizes(model: SizedModel, ranges: SizeRanges) -> Function | None:
    """Return *model* with open sizes in *ranges*; None if it needs numbers, and none are given."""
    is_asked = bool(ranges.ranges or ranges.hints)
    try:
        function, specialized = model.open_function(ranges)
    except GlowError:
        if is_asked:
            raise
        return None
    if is_asked:
        for each in specialized:
            raise OptionError(
                f"size {each.name!r} has to be a number, {each.reason}; give it by --shape, and "
                "leave --size and --hint out for it"
            )
    return None if specialized or decided_sizes(function) else function


def _open_source(function: Function, stamp: Stamp, names: frozenset[str]) -> ModelSource:
    """Return the source of a *function* with open sizes."""
    leading = [symbols_of(*value.type.shape[:1]) for value in function.inputs]
    if not all(leading):
        return ModelSource(function, stamp, names=names)
    batch = {symbol.name for symbols in leading for symbol in symbols}
    hints = {symbol.name: symbol.hint for symbol in function.sizes}
    try:
        one, two = (with_sizes(function, hints | dict.fromkeys(batch, rows)) for rows in (1, 2))
        note = dependence_of_rows(one, two)
    except OptionError as error:
        note = f"it does not take one row and two: {error}"
    return ModelSource(function, stamp, has_rows=not note, note=note, names=names)


def _with_rows(
    file: ModelFile, model: SymbolicModel, stamp: Stamp, names: frozenset[str], max_batch: int
) -> ModelSource:
    """Return the source of a *model* with open sizes, which must be the rows of requests."""
    try:
        symbols = open_batch(file.name, model)
    except OptionError as error:
        raise ModelError(_other_open_sizes(file, model)) from error

    def of_rows(rows: int) -> Function:
        return model.function(dict.fromkeys(symbols, rows))

    one = of_rows(1)
    if note := dependence_of_rows(one, of_rows(2)):
        return ModelSource(one, stamp, note=note, names=names)
    return ModelSource(of_rows if max_batch > 1 else one, stamp, has_rows=True, names=names)


def _other_open_sizes(file: ModelFile, model: SymbolicModel) -> str:
    """Return which inputs have open sizes, and what would bind those that cannot be served so."""
    listed = ", ".join(f"{name!r} is {type}" for name, type in model.inputs.items())
    shapes = {name: type.shape for name, type in model.inputs.items()}
    unknown = [f"{name}=1x1" for name, shape in shapes.items() if shape is None]
    inner = [size for shape in shapes.values() for size in (shape or ())[1:]]
    leading = [size for shape in shapes.values() for size in (shape or ())[:1]]
    named = [f"{size}=1" for size in inner if isinstance(size, str)]
    named = named or [f"{size}=1" for size in leading if isinstance(size, str)]
    options = " ".join(f"--shape {size}" for size in dict.fromkeys(unknown + named))
    return (
        f"{file.path.name}: its sizes are open ({listed}); only the leading size of all inputs may "
        f"be, as the rows of a request; give the others, as in {options}"
    )


def _data_files(path: Path, model: Model) -> list[Path]:
    """Return where the external data of *model* may be found, seen from its file and from links."""
    from glow_nb.formats.onnx.importer.locations import external_locations

    folders = dict.fromkeys((path.parent, Path(os.path.realpath(path)).parent))
    locations = [os.path.normpath(each) for each in external_locations(model.proto) if each]
    inside = [each for each in locations if not os.path.isabs(each) and each.split("/")[0] != ".."]
    return [folder / location for folder in folders for location in inside]
