"""The cpu backend: shape-specialised kernels as machine code (paper 5)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from math import prod

from typing_extensions import override

from glow_nb.backends.backend import Backend, PlannedMemory
from glow_nb.backends.cpu.algorithms.choice import (
    check_choice,
    check_cost_model,
    check_layers,
)
from glow_nb.backends.cpu.algorithms.selection import Tuner, before_selection
from glow_nb.backends.cpu.channels_first_pools import channels_first_pools
from glow_nb.backends.cpu.columns_to_rows import columns_to_rows
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.backends.cpu.kernel_estimate import estimated_ns
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.backends.cpu.pack_dequantizing_products import pack_dequantizing_products
from glow_nb.backends.cpu.pack_recurrences import pack_recurrences
from glow_nb.backends.cpu.plan_kernels import plan_kernels
from glow_nb.backends.cpu.planned_calls import Kernels, places_of, plan_calls, used_weights
from glow_nb.backends.cpu.products import PRODUCTS
from glow_nb.backends.cpu.quantize_by_reciprocals import quantize_by_reciprocals
from glow_nb.backends.cpu.select_fourier_transforms import select_fourier_transforms
from glow_nb.backends.cpu.select_gradient_kernels import select_gradient_kernels
from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.backends.cpu.shared_weights import SharedWeights
from glow_nb.backends.cpu.strides_before_transposes import strides_before_transposes
from glow_nb.backends.cpu.transposed_convolutions import transposed_convolutions
from glow_nb.backends.cpu.unsigned_activations import unsigned_activations
from glow_nb.backends.cpu.widen_convolutions import widen_convolutions
from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.steps import Entries, Step
from glow_nb.codegen.debugging.debug_folder import require_debug_support
from glow_nb.codegen.debugging.perf import chosen
from glow_nb.codegen.program_memory import PlacedWeight
from glow_nb.codegen.workers import keep_workers
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import (
    ConvolutionFilterGradient,
    DequantizingMatMul,
    FourierTransform,
    GroupNormalization,
)
from glow_nb.kernels.cpu_kernels import CPU_KERNELS
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Buffer, Instruction, Program


class CpuBackend(Backend):
    """Compiles programs to machine code for one kind of processor."""

    name = "cpu"
    kernels = CPU_KERNELS
    replaced = (*PRODUCTS, ConvolutionFilterGradient, DequantizingMatMul, FourierTransform)

    _shared: SharedWeights | None = None
    _loads = True
    _is_whole = True

    def __init__(
        self, target: Target | None = None, options: CpuOptions | None = None, *, threads: int = 1
    ) -> None:
        """Compile for *target*, by default the processor this runs on, and for *threads*."""
        self.target, self.threads = target or Target.host(), threads
        check_choice((options or CpuOptions()).plan)
        check_cost_model((options or CpuOptions()).cost_model)
        self.options = options or CpuOptions()
        if self.options.debug:
            require_debug_support()
        chosen()
        self._planned = Kernels(self.target)  # a planner asks for many programs of one network

    def for_target(self, target: Target) -> CpuBackend:
        """Return a backend with the same options whose code is for *target*, to be run there.

        Raises:
            UnsupportedError: An option measures on this machine.
        """
        if self.options.tune:
            raise UnsupportedError(
                f"tune: it measures on this machine, and the code is for {target.cpu}; leave it out"
            )
        backend = copy.copy(self)
        backend.target, backend._planned, backend._loads = target, Kernels(target), False
        return backend

    def for_variants(self) -> CpuBackend:
        """Return a backend whose programs share weights, and that lets compile workers wait."""
        backend = copy.copy(self)  # of its own class
        backend._shared = SharedWeights()
        keep_workers(backend)
        return backend

    def for_functions(
        self, functions: Sequence[Function] | None, passes: Entries = ()
    ) -> CpuBackend:
        """Return a backend for which a layer that *plan* names may be in any of *functions*."""
        plan = self.options.plan
        if functions is not None and self._is_whole and isinstance(plan, Mapping):
            check_layers(plan, [before_selection(each, passes) for each in functions])
        backend = self.for_variants()
        backend._is_whole = False
        return backend

    @override
    def should_lower(self, node: Node) -> bool:
        """True for an operator without a kernel, or whose kernel is slower than what it lowers to.

        The kernel of a group normalization walks three times over the elements of a group. So they
        should lie side by side and stay in the cache, and each thread should have a group.
        """
        if not isinstance(node, GroupNormalization):
            return super().should_lower(node)
        shape = node.type.shape
        is_side_by_side = prod(shape[1 : node.channel_axis]) == 1
        group_bytes = node.group_elements * node.type.kind.size_bytes
        is_near = group_bytes <= self.target.machine.l2_bytes // 2
        return not (is_side_by_side and is_near and shape[0] * node.groups >= self.threads)

    @property
    @override
    def early_pipeline(self) -> Entries:
        """Choose what lowering would decide, and what types say that lowering strips."""
        return (
            unsigned_activations.__name__,  # while types say what their integers stand for
            Step(
                transposed_convolutions.__name__, {"target": self.target, "threads": self.threads}
            ),
        )

    @property
    @override
    def graph_pipeline(self) -> Entries:
        """Choose packed operators and parts, then lay out their constant operands."""
        return (
            *super().graph_pipeline,  # what passes found again and no kernel does is lowered again
            Step(
                pack_dequantizing_products.__name__,
                {"target": self.target},
                needed="kernels that dequantize weights read them in panels",
            ),
            Step(channels_first_pools.__name__, {"target": self.target}),
            strides_before_transposes.__name__,
            Step(
                select_fourier_transforms.__name__,
                {"target": self.target},
                needed="transforms have kernels in the form that it makes, or are products",
            ),
            Step(widen_convolutions.__name__, {"target": self.target}),
            Step(columns_to_rows.__name__, {"target": self.target, "threads": self.threads}),
            Step(
                select_packed_operators.__name__,
                {
                    "target": self.target,
                    "winograd": self.options.winograd,
                    "strassen": self.options.strassen,
                    "constant_growth": self.options.constant_growth,
                    "tuner": self._tuner(),
                    "threads": self.threads,
                    "plan": self.options.plan,
                    "is_whole": self._is_whole,
                    "cost_model": self.options.cost_model,
                },
                needed="convolutions and matrix products have kernels in the form that it makes",
            ),
            Step(
                select_gradient_kernels.__name__,
                {"target": self.target, "threads": self.threads},
                needed="gradients of filters have kernels in the form that it makes",
            ),
            Step(
                pack_recurrences.__name__,
                {"target": self.target},
                needed="kernels of recurrent layers read their weights in panels",
            ),
            Step(quantize_by_reciprocals.__name__, {"target": self.target}),
            "sink_transposes",  # transposes that pack a computed operand become one
            "sink_reshapes",  # those of kernels with fewer dimensions move behind what is fused
            "split_reductions",  # one result is the work of one thread: parts are that of several
            "fold_constants",  # constant weights are packed and transformed at compile time
            "eliminate_noops",  # packing leaves reshapes and transposes that move nothing
            "eliminate_common_nodes",  # an operand that two products pack alike is packed once
            "eliminate_dead_nodes",  # nodes that packing has replaced are dropped
        )

    @property
    @override
    def late_pipeline(self) -> Entries:
        """Plan the kernels, once nothing more is fused into them."""
        return (
            Step(
                plan_kernels.__name__,
                {"target": self.target},
                needed="kernels are written by their plans; plan= and cost_model= change them",
            ),
        )

    def _tuner(self) -> Tuner | None:
        """Return who measures how products are computed fastest, if that is asked for."""
        if not self.options.tune:
            return None
        from glow_nb.backends.cpu.tune import MeasuringTuner

        return MeasuringTuner(self.target, self.threads)

    def estimated_ns(self, instruction: Instruction) -> float:
        """Return about how long one thread of the target takes for *instruction*."""
        return estimated_ns(instruction, self.target)

    @property
    @override
    def compile_steps(self) -> Mapping[str, str]:
        return {
            "fill_constants": "Lay out the weights as the kernels read them.",
            "generate_source": "Write the kernels, and the entry that calls them, as Python.",
            "compile_kernels": "Compile each kernel that the cache lacks to machine code.",
            "load_code": "Link the machine code into the process.",
        }

    def planned_memory(self, program: Program, *, threads: int) -> PlannedMemory:
        """Return what *program* will take: its kernels are written, but not compiled."""
        weights = used_weights(program)
        size = sum(aligned_bytes(weight.type.size_bytes) for weight in weights)
        if threads == 1:
            return PlannedMemory(size, self._planned.scratch_bytes(program))
        anywhere: dict[Buffer, PlacedWeight] = {  # what is only read may lie anywhere
            weight: PlacedWeight(weight.name, weight.type, 0, 0) for weight in weights
        }
        planned = plan_calls(program, places_of(program, anywhere, 0), self._planned, threads)
        return PlannedMemory(size, planned.scratch_bytes)

    @override
    def compile(self, program: Program, *, threads: int) -> CpuExecutable:
        """Return *program* as machine code."""
        return CpuExecutable(
            program,
            self.target,
            threads=threads,
            shared=self._shared,
            debug=self.options.debug,
            loads=self._loads,
        )
