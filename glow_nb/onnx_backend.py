"""glow_nb as a standard ONNX backend: ``prepare``, ``run_model``, ``run_node`` ...

::

    import glow_nb.onnx_backend as backend

    outputs = backend.prepare(model).run([images])

and ONNX's own test suite::

    onnx.backend.test.BackendTest(glow_nb.onnx_backend, __name__)

The keyword ``engine`` chooses who computes: ``cpu`` (compiled code), ``interpreter`` (the same
instructions by NumPy) or ``evaluate`` (the graph as imported, node by node); ``optimize=False``
leaves all passes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict
from typing_extensions import override

from glow_nb.base.arguments import as_array, whole_number
from glow_nb.base.errors import (
    FeedError,
    OptionError,
    UnboundDimension,
    UnboundInput,
    UnsupportedError,
)
from glow_nb.base.feeds import name_feeds
from glow_nb.base.types import Array, TensorType
from glow_nb.compiler.pipelines import INFERENCE
from glow_nb.formats.onnx.importer import import_onnx, load_model
from glow_nb.formats.onnx.importer.dimensions import names_of_weights
from glow_nb.formats.onnx.schema.schemas import NEWEST_OPSET
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.network.compiling import compile
from glow_nb.network.request import MAX_VARIANTS
from glow_nb.network.variants import VariantCache

ENGINES = ("cpu", "interpreter", "evaluate")

_MAX_SHAPE_INPUT_ELEMENTS = 1024

Runner = Callable[[Mapping[str, Array]], Mapping[str, Array]]
Variant = tuple[Function, Runner]
Key = tuple[tuple[str, tuple[int, ...], bytes], ...]


class GlowBackendRep(BackendRep):
    """A model ready to run; compiled at the first run if its shapes depend on what is fed."""

    def __init__(
        self,
        model: onnx.ModelProto,
        engine: str,
        threads: int | None,
        optimize: bool = True,
        max_variants: int = MAX_VARIANTS,
    ) -> None:
        """Prepare *model*; see :meth:`GlowBackend.prepare`."""
        self._model, self._engine, self._threads = load_model(model), engine, threads
        self._optimize = optimize
        weights = names_of_weights(model.graph)
        self._all_inputs = [info.name for info in model.graph.input]
        self._inputs = [name for name in self._all_inputs if name not in weights]
        self._outputs = namedtupledict("Outputs", [o.name for o in model.graph.output])
        limit = whole_number("max_variants", max_variants, 1)
        self._variants: VariantCache[Key, Variant] = VariantCache(limit)
        self._only: Variant | None = None  # of a model whose shapes are all known
        self._fixed: set[str] = set()  # inputs that shapes depend on
        try:
            self._only = self._build({}, {})
        except UnboundInput as error:
            self._fixed.update(error.names)
        except UnboundDimension:
            pass  # the first run binds it

    @override
    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """Run the model on a sequence of arrays, a mapping by name, or one bare array.

        Inputs with an initializer need not be given: a sequence has arrays for all inputs or for
        all others, a mapping may have some of them.

        Returns:
            A named tuple of arrays, in the model's order.

        Raises:
            FeedError: The inputs do not fit.
            UnsupportedError: A shape depends on numbers that are not a short list or a scalar.
        """
        feeds = self._feeds(inputs)
        function, runner = self._variant(feeds)
        wanted = [placeholder.name for placeholder in function.inputs]
        results = runner({name: feeds[name] for name in wanted})
        return tuple(self._outputs(*results.values()))

    def _feeds(self, inputs: Any) -> dict[str, Array]:
        named = self._named(inputs)
        for name, value in named.items():
            if not isinstance(value, np.ndarray | np.generic | int | float):
                raise UnsupportedError(
                    f"input {name!r} is a {type(value).__name__}; only arrays are supported"
                )
        return {name: as_array(name, value) for name, value in named.items()}

    def _named(self, inputs: Any) -> Mapping[str, Any]:
        """Return what is given for each input by name; raise FeedError if it is not all."""
        names = dict.fromkeys(self._inputs).keys()
        if isinstance(inputs, Mapping):
            present = {name: value for name, value in inputs.items() if value is not None}
            given = name_feeds(names, present, set(self._all_inputs))
            return {name: given[name] for name in self._all_inputs if name in given}
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        for wanted in (self._inputs, self._all_inputs):
            if len(values) == len(wanted):
                return dict(zip(wanted, values, strict=True))
        others = [name for name in self._all_inputs if name not in names]
        default = f", and those that have a default, {others}" if others else ""
        raise FeedError(f"{len(values)} inputs given, the model takes {self._inputs}{default}")

    def _variant(self, feeds: Mapping[str, Array]) -> Variant:
        """Return the network for the shapes, and where they matter the numbers, of *feeds*."""
        if self._only is not None and feeds.keys() == set(self._inputs):
            return self._only
        while True:
            constants = {name: feeds[name] for name in feeds if name in self._fixed}
            for name, array in constants.items():
                _require_short(name, array)
            key = tuple(
                (name, array.shape, array.tobytes() if name in constants else b"")
                for name, array in feeds.items()
            )
            shapes = {n: a.shape for n, a in feeds.items() if n not in constants}
            try:
                return self._variants.get(key, partial(self._build, shapes, constants))
            except UnboundInput as error:
                new = [n for n in error.names if n in feeds and n not in constants]
                if not new:
                    raise
                self._fixed.update(new)

    def _build(
        self, shapes: Mapping[str, Sequence[int]], constants: Mapping[str, Array]
    ) -> Variant:
        function = import_onnx(self._model, shapes=shapes, constants=constants)
        if self._engine == "evaluate":
            return function, partial(evaluate, function)
        network = compile(
            function,
            backend=self._engine,
            threads=self._threads,
            pipeline=INFERENCE if self._optimize else (),
            program_pipeline=None if self._optimize else (),
        )
        return function, network.run


def _require_short(name: str, array: Array) -> None:
    """Raise UnsupportedError if an input is no parameter: neither a scalar nor a short list."""
    if array.ndim > 1 or array.size > _MAX_SHAPE_INPUT_ELEMENTS:
        raise UnsupportedError(
            f"input {name!r}: shapes depend on its numbers, and it is a tensor of shape "
            f"{list(array.shape)}; only scalars and lists of at most "
            f"{_MAX_SHAPE_INPUT_ELEMENTS} can be bound"
        )


def _operands_of(node: onnx.NodeProto, inputs: Any) -> dict[str, Array]:
    """Return what is given for each operand of *node* by name; raise FeedError if it is not all."""
    names = list(dict.fromkeys(filter(None, node.input)))
    if isinstance(inputs, Mapping):
        given = dict(name_feeds(dict.fromkeys(names).keys(), inputs))
        return {name: as_array(name, value) for name, value in given.items()}
    values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
    if len(values) == len(names):
        return {name: as_array(name, value) for name, value in zip(names, values, strict=True)}
    if len(values) != len(node.input):
        raise FeedError(f"{len(values)} inputs given, the node takes {names}")
    return _operands_by_place(node, values)


def _operands_by_place(node: onnx.NodeProto, values: Sequence[Any]) -> dict[str, Array]:
    """Return what is given for each operand of *node*, *values* having one for each place."""
    found: dict[str, Array] = {}
    for place, (name, value) in enumerate(zip(node.input, values, strict=True)):
        if not name:
            if value is not None:
                raise FeedError(f"input {place}: the node leaves it out; give None in its place")
            continue
        array = as_array(name, value)
        if name in found and not _is_same(array, found[name]):
            raise FeedError(
                f"input {name!r}: the node reads it twice, and two different arrays are given for "
                f"it, of {TensorType.of(found[name])} and {TensorType.of(array)}; give one array, "
                "or operands with names of their own"
            )
        found[name] = array
    return found


def _is_same(left: Array, right: Array) -> bool:
    """Return whether two arrays have the same kind, shape and bits."""
    return TensorType.of(left) == TensorType.of(right) and left.tobytes() == right.tobytes()


class GlowBackend(Backend):
    """The standard interface, for tools that can run any ONNX backend."""

    @classmethod
    @override
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether *model* can be imported."""
        try:
            import_onnx(model)
        except UnsupportedError as error:
            return isinstance(error, UnboundInput)
        except UnboundDimension:
            return True
        return True

    @classmethod
    @override
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: str = "CPU",
        *,
        engine: str = "cpu",
        threads: int | None = None,
        optimize: bool = True,
        max_variants: int = MAX_VARIANTS,
        **kwargs: Any,
    ) -> GlowBackendRep:
        """Import and compile *model*.

        Args:
            model: The model.
            device: ``CPU``, or ``CPU:0``.
            engine: Who computes, one of :data:`ENGINES`.
            threads: Cores for one run, all by default.
            optimize: False to run no graph and no instruction pass, but those a backend needs.
            max_variants: For how many sets of shapes, and of numbers where shapes depend on those,
                the model is kept compiled.
            kwargs: Ignored; other backends have options of their own.

        Raises:
            OptionError: There is no such device or engine.
            ModelError, UnsupportedError: As :func:`glow_nb.formats.onnx.importer.import_onnx`.
        """
        if not cls.supports_device(device):
            raise OptionError(f"device {device!r} is not supported; use 'CPU'")
        if engine not in ENGINES:
            raise OptionError(f"unknown engine {engine!r}; there are {list(ENGINES)}")
        return GlowBackendRep(model, engine, threads, optimize, max_variants)

    @classmethod
    @override
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Run *model* once; see :meth:`prepare` for the options."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    @override
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one operator of opset ``opset_version``, by default the newest, on arrays.

        They are given as for :meth:`GlowBackendRep.run`: one for each name, or one for each place,
        None where an operand is left out.
        """
        opset = kwargs.pop("opset_version", NEWEST_OPSET)
        feeds = _operands_of(node, inputs)
        infos = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in feeds.items()
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        model = onnx.helper.make_model(
            onnx.helper.make_graph([node], "node", infos, outputs),
            opset_imports=[onnx.helper.make_opsetid(node.domain, opset)],
        )
        return cls.run_model(model, feeds, device, **kwargs)

    @classmethod
    @override
    def supports_device(cls, device: str) -> bool:
        """Return whether *device* is a CPU."""
        return device.split(":", maxsplit=1)[0] == "CPU"


is_compatible = GlowBackend.is_compatible
prepare = GlowBackend.prepare
run_model = GlowBackend.run_model
run_node = GlowBackend.run_node
supports_device = GlowBackend.supports_device
