"""``bisect_finite``: the first kernel, and the first operator of the model, with NaN or infinity.

The kernels are checked as by ``compile(check_finite=True)``, and NumPy evaluates the imported graph
on the same inputs, which shows whether the model itself yields such numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.backends import BackendLike
from glow_nb.base.arguments import Shapes
from glow_nb.base.finite import BadElement, FiniteCheck, NonFiniteError, as_finite_check
from glow_nb.base.progress import report
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.bisection.search import named_inputs
from glow_nb.bisection.states import Evaluator
from glow_nb.hlir.graph import Function
from glow_nb.network.compiling import compile
from glow_nb.network.loading import Graph, load_ir


@dataclass(frozen=True)
class NonFiniteValue:
    """A value of the model, as NumPy evaluates it, that has a NaN or an infinity.

    Attributes:
        name: Its name in the imported graph.
        opcode: The operator that computes it.
        nodes: The nodes of the model that it was imported from.
        bad: The first such element.
    """

    name: str
    opcode: str
    nodes: tuple[str, ...]
    bad: BadElement


@dataclass(frozen=True)
class FiniteSearch:
    """The result of :func:`bisect_finite`.

    Attributes:
        kernels: The number of kernels.
        error: The error that names the first kernel, or the input, with such a number; None if
            there is none.
        value: The first such value of the model in NumPy; None if there is none, or if *graph* is a
            program.
    """

    kernels: int
    error: NonFiniteError | None
    value: NonFiniteValue | None

    @override
    def __str__(self) -> str:
        code = str(self.error) if self.error else f"all {self.kernels} kernels make finite numbers"
        if self.value is None:
            return code
        nodes = ", ".join(f"%{format_name(node)}" for node in self.value.nodes)
        return (
            f"{code}\nevaluated with NumPy, the first value of the model is "
            f"%{format_name(self.value.name)}, {self.value.opcode} of {nodes}: {self.value.bad}"
        )


def bisect_finite(
    graph: Graph,
    inputs: Mapping[str, Array] | Array,
    *,
    backend: BackendLike = "cpu",
    threads: int | None = None,
    shapes: Shapes | None = None,
    check: bool | FiniteCheck = True,
    without: Collection[str] = (),
) -> FiniteSearch:
    """Return where a NaN or an infinity occurs first, in the code and in the model.

    Args:
        graph: A model, as for ``glow_nb.compile``.
        inputs: The feeds, as for ``net.run``.
        backend: The backend, as for ``compile``; options as ``glow_nb.Cpu(...)``.
        threads: Cores that share the work; all by default.
        shapes: As for ``compile``.
        check: The values that are not checked, as for ``compile``; by default everything is
            checked.
        without: Passes that are left out, as for ``compile``.

    Raises:
        OptionError: An argument has no meaning.
        FeedError: An input is missing, unknown, or of another type.
    """
    loaded = load_ir(graph, shapes=shapes)
    feeds = named_inputs(loaded, inputs)
    looked_for = as_finite_check(check) or FiniteCheck()
    report("running the kernels")
    network = compile(
        loaded,
        backend=backend,
        threads=threads,
        without=without,
        check_finite=looked_for,
    )
    error: NonFiniteError | None = None
    try:
        network.run(feeds)
    except NonFiniteError as found:
        error = found
    value = None
    if isinstance(loaded, Function):
        report("evaluating the model")
        value = _first_value(loaded, feeds, looked_for)
    return FiniteSearch(len(network.kernels), error, value)


def _first_value(
    function: Function, feeds: Mapping[str, Array], check: FiniteCheck
) -> NonFiniteValue | None:
    """Return the first value of *function*, in its order, that *check* does not allow."""
    computed = Evaluator(feeds)(function)
    for (name, index), array in computed.values.items():
        node, nodes = function[name], computed.origins.get(name, (name,))
        is_float = node.result_types[index].kind.is_float
        if is_float and not check.excludes((name, *nodes)):
            bad = check.bad_element(array)
            if bad is not None:
                return NonFiniteValue(name, node.opcode, nodes, bad)
    return None
