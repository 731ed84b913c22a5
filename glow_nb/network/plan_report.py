"""The plans of the layers of a model, and why they are chosen: :func:`plans`."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import TYPE_CHECKING

from glow_nb.backends import BackendLike, backend_named, option_names
from glow_nb.base.arguments import Constants, Shapes, described
from glow_nb.base.errors import OptionError
from glow_nb.base.habits import refuse_arguments
from glow_nb.base.steps import Entries
from glow_nb.compiler import pipelines
from glow_nb.hlir.graph import Function
from glow_nb.hlir.kept_names import require_kept
from glow_nb.network import compilation as compiler
from glow_nb.network.compiling import as_threads
from glow_nb.network.loading import Graph, load_ir

if TYPE_CHECKING:
    from glow_nb.backends.cpu.algorithms.explain import PlanTable


def plans(
    graph: Graph,
    *,
    backend: BackendLike = "cpu",
    threads: int | None = None,
    shapes: Shapes | None = None,
    constants: Constants | None = None,
    pipeline: Entries = pipelines.INFERENCE,
    without: Collection[str] = (),
    **options: object,
) -> PlanTable:
    """Return the candidate plans of each convolution and matrix product of *graph*, and the chosen
    one.

    The arguments are those of :func:`glow_nb.compile`. Nothing is compiled or measured: with
    ``tune=True``, notes say for which layers the compiler would measure instead of estimating::

        table = glow_nb.plans("model.onnx")
        print(table.table("conv1"))

    Raises:
        OptionError: *backend* is not the cpu's, *graph* is a program, or an argument is invalid.
        ModelError, UnsupportedError: As :func:`glow_nb.load`.
    """
    from glow_nb.backends.cpu.algorithms.explain import explain
    from glow_nb.backends.cpu.algorithms.selection import before_selection
    from glow_nb.backends.cpu.backend import CpuBackend

    known = (*list(inspect.signature(plans).parameters)[:-1], *option_names())
    refuse_arguments("plans", options.keys() - known, known)
    cores = as_threads(threads)
    chosen = backend_named(backend, threads=cores, options=options)
    if not isinstance(chosen, CpuBackend):
        raise OptionError(
            f"backend={described(backend)}: it has one kernel for each operator; plans are those "
            "of backend='cpu'"
        )
    function = load_ir(graph, shapes=shapes, constants=constants)
    if not isinstance(function, Function):
        raise OptionError("the graph is a program, whose plans stand in its text; give a function")
    require_kept([function], chosen.keep)
    order = compiler.graph_order(chosen, pipeline, without)
    ready = before_selection(function, order)
    return explain(ready, chosen.target, chosen.options, threads=cores)
