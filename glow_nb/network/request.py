"""The arguments of a compilation as one value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from glow_nb.base.arguments import Constants, Shapes
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.backends import BackendLike
    from glow_nb.base.finite import FiniteCheck
    from glow_nb.base.passes import Observer
    from glow_nb.base.size_ranges import SizeRanges
    from glow_nb.base.steps import Entries
    from glow_nb.llir.allocate import Allocator
    from glow_nb.network.loading import Graph
    from glow_nb.scheduling.ordering import Scheduler

MAX_VARIANTS = 16
"""Sets of sizes that a network keeps compiled, if the user does not say how many."""


class CompileRequest(NamedTuple):
    """The arguments of :func:`glow_nb.compile`, which explains them.

    Attributes:
        graph: The model.
        backend: Its name, options, or itself.
        threads: Cores that share the work of one run.
        shapes: Sizes by name.
        ranges: The ranges of sizes that stay open in one program for all sizes, if there are any.
        each: Whether each set of sizes gets a program of its own, and none is for all.
        caches: Outputs by the inputs that they become in the next run, which stay in the network.
        specialize_after: After how many runs sizes get a program of their own; None for never.
        constants: Inputs that are fixed, by name.
        max_variants: For how many sets of sizes a network with open sizes is kept.
        pipeline: Graph passes; None for those of inference.
        program_pipeline: Instruction passes; None for those of the backend.
        without: Names of passes that are left out.
        scheduler: Orders nodes and instructions; None for the compiler's own.
        allocator: Places activations; None for the compiler's own.
        observer: Called after every step.
        state: The store of the states.
        check_finite: The values of a run that are checked for NaN and infinities.
        cache: Whether the network is kept on the disk, and looked for there.
        options: Options of the backend by name.
    """

    graph: Graph
    backend: BackendLike
    threads: int
    shapes: Shapes
    ranges: SizeRanges | None
    each: bool
    caches: Mapping[str, str]
    specialize_after: int | None
    constants: Constants
    max_variants: int
    pipeline: Entries | None
    program_pipeline: Entries | None
    without: Collection[str]
    scheduler: Scheduler | None
    allocator: Allocator | None
    observer: Observer | None
    state: StateStore | None
    check_finite: FiniteCheck | None
    cache: bool
    options: Mapping[str, object]
