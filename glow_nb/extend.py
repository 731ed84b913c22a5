"""What passes, operators, kernels, cost models and backends that are added from outside import.

Together with ``glow_nb`` itself and ``glow_nb.hlir.ops``, which has the operators, this is all that
they need; the pages of ``docs/howto/`` use nothing else.

==========================  =======================================================================
to write                    import
==========================  =======================================================================
an operator                 ``define_node`` and a base: ``UnaryElementwise``, ``BinaryElementwise``,
                            or ``glow_nb.Node``; ``require_kind``, ``TensorType``, ``ElementKind``,
                            ``Array``;
                            ``lowers`` for a rule that expresses it by others;
                            ``define_scalar_function`` for a function that formulas call
its form in ONNX files      ``onnx_operator``; ``imports``, with ``OnnxNode``, ``ImportContext``
its gradient                ``gradient``, ``no_gradient``, ``Backward``, ``Term``, ``sum_to``;
                            ``check_gradients``
its kernel                  ``derive_instruction``, ``kernel_for``, ``KernelSource``,
                            ``SourceWriter``, ``share``, ``Target``, ``ChosenRow``, ``Cost``
a pass over graphs          ``Replacement``, what a rule of ``glow_nb.rewrite`` returns
a pass as a pattern         ``Rewrite``, ``rule``, ``Rules``; ``wildcards``, ``wildcard``,
                            ``is_constant``, ``ANY``, ``number``, ``any_of``, ``named``,
                            ``used_here``
a pass over instructions    ``Program`` and its parts: ``Instruction``, ``Buffer``, ``Activation``,
                            ``Weight``, ``View``, ``Bound``, ``StateBuffer``, ``Arena``;
                            ``operands_of``, ``read``, ``mutated``, ``substitute``,
                            ``mark_lifetimes``
a scheduler, an allocator   ``Steps``, ``LiveRange``, ``ALIGNMENT``, ``aligned_bytes``
a cost model                ``Plan``, ``Problem``, ``ConvolutionShape``, ``Candidate``, ``Target``,
                            ``Algorithm``, ``register_algorithm``, ``algorithm_of``;
                            ``MatMulShape``, ``UnpackedProduct``, ``MatrixLayout`` and
                            ``ProductKinds``, which a problem has
a backend                   ``Executable``, ``PlannedMemory``, ``KernelReport``, ``KernelTable``,
                            ``KernelTraits``,
                            ``instruction_for``, ``StackInst``, ``members_of``, ``Register``,
                            ``scalar_expression``
==========================  =======================================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from glow_nb.backends.backend import Executable as Executable
from glow_nb.backends.backend import PlannedMemory as PlannedMemory
from glow_nb.backends.cpu.algorithms import Algorithm as Algorithm
from glow_nb.backends.cpu.algorithms import Candidate as Candidate
from glow_nb.backends.cpu.algorithms import algorithm_of as algorithm_of
from glow_nb.backends.cpu.algorithms import register_algorithm as register_algorithm
from glow_nb.backends.cpu.algorithms.problem import Problem as Problem
from glow_nb.base.alignment import ALIGNMENT as ALIGNMENT
from glow_nb.base.alignment import aligned_bytes as aligned_bytes
from glow_nb.base.costs import Cost as Cost
from glow_nb.base.kernel_report import KernelReport as KernelReport
from glow_nb.base.pattern import ANY as ANY
from glow_nb.base.pattern import any_of as any_of
from glow_nb.base.pattern import named as named
from glow_nb.base.pattern import number as number
from glow_nb.base.pattern import used_here as used_here
from glow_nb.base.pattern import wildcard as wildcard
from glow_nb.base.pattern import wildcards as wildcards
from glow_nb.base.plan import Plan as Plan
from glow_nb.base.rewriting import Rewrite as Rewrite
from glow_nb.base.rewriting import Rules as Rules
from glow_nb.base.rewriting import rule as rule
from glow_nb.base.schema import operands_of as operands_of
from glow_nb.base.types import Array as Array
from glow_nb.base.types import ElementKind as ElementKind
from glow_nb.base.types import TensorType as TensorType
from glow_nb.formats.onnx.own_operators import imports as imports
from glow_nb.formats.onnx.own_operators import onnx_operator as onnx_operator
from glow_nb.hlir import rewriting as _rewriting_of_graphs  # noqa: F401  rules apply to graphs
from glow_nb.hlir.backward import Backward as Backward
from glow_nb.hlir.check_gradients import check_gradients as check_gradients
from glow_nb.hlir.gradients.broadcasting import sum_to as sum_to
from glow_nb.hlir.graph import define_node as define_node
from glow_nb.hlir.ops.families import BinaryElementwise as BinaryElementwise
from glow_nb.hlir.ops.families import UnaryElementwise as UnaryElementwise
from glow_nb.hlir.ops.families import require_kind as require_kind
from glow_nb.hlir.ops.formulas.terms import Term as Term
from glow_nb.hlir.rewrite import Replacement as Replacement
from glow_nb.hlir.rules import gradient as gradient
from glow_nb.hlir.rules import lowers as lowers
from glow_nb.hlir.rules import no_gradient as no_gradient
from glow_nb.kernels.machine.choose import ChosenRow as ChosenRow
from glow_nb.kernels.products.convolution_shape import ConvolutionShape as ConvolutionShape
from glow_nb.kernels.products.matmul_shape import MatMulShape as MatMulShape
from glow_nb.kernels.products.matrix_layout import MatrixLayout as MatrixLayout
from glow_nb.kernels.products.product_nest import ProductKinds as ProductKinds
from glow_nb.kernels.products.unpacked_product import UnpackedProduct as UnpackedProduct
from glow_nb.kernels.registry import kernel_for as kernel_for
from glow_nb.kernels.target import Target as Target
from glow_nb.kernels.writing.loops import share as share
from glow_nb.kernels.writing.source import KernelSource as KernelSource
from glow_nb.kernels.writing.source import SourceWriter as SourceWriter
from glow_nb.llir import rewriting as _rewriting_of_programs  # noqa: F401  and to programs
from glow_nb.llir.allocate import LiveRange as LiveRange
from glow_nb.llir.constants import is_constant as is_constant
from glow_nb.llir.instructions.derived import derive_instruction as derive_instruction
from glow_nb.llir.instructions.derived import instruction_for as instruction_for
from glow_nb.llir.kernel_table import KernelTable as KernelTable
from glow_nb.llir.lifetimes import mark_lifetimes as mark_lifetimes
from glow_nb.llir.program import Activation as Activation
from glow_nb.llir.program import Arena as Arena
from glow_nb.llir.program import Bound as Bound
from glow_nb.llir.program import Buffer as Buffer
from glow_nb.llir.program import Instruction as Instruction
from glow_nb.llir.program import Program as Program
from glow_nb.llir.program import Register as Register
from glow_nb.llir.program import StateBuffer as StateBuffer
from glow_nb.llir.program import View as View
from glow_nb.llir.program import Weight as Weight
from glow_nb.llir.program import mutated as mutated
from glow_nb.llir.program import read as read
from glow_nb.llir.scalar import define_scalar_function as define_scalar_function
from glow_nb.llir.scalar import scalar_expression as scalar_expression
from glow_nb.llir.stack import StackInst as StackInst
from glow_nb.llir.stack import members_of as members_of
from glow_nb.llir.substitute import substitute as substitute
from glow_nb.llir.traits import KernelTraits as KernelTraits
from glow_nb.scheduling.steps import Steps as Steps

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer.import_context import ImportContext as ImportContext
    from glow_nb.formats.onnx.importer.node import OnnxNode as OnnxNode

_OF_THE_IMPORTER = {
    "ImportContext": "glow_nb.formats.onnx.importer.import_context",
    "OnnxNode": "glow_nb.formats.onnx.importer.node",
}
"""Names that are imported at first use, with ``onnx``."""


def __getattr__(name: str) -> object:
    if name not in _OF_THE_IMPORTER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(importlib.import_module(_OF_THE_IMPORTER[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    others = {"TYPE_CHECKING", "annotations", "importlib"}
    offered = {*globals(), *_OF_THE_IMPORTER}.difference(others)
    return sorted(name for name in offered if not name.startswith("_"))
