"""Do functions of single elements cost what their arithmetic costs?

For each function, a row of the table has

- ``instructions``: those of one vector in the machine code of a plain loop (products, that is
  multiplications with or without an addition, and ``vblendvps``, a choice by a mask; sums, that is
  additions, limits, comparisons and shifts; divisions; others), without loads, stores and copies
  of registers;
- ``bound``: the cycles that they take at least, on a processor that starts two products and two
  sums in a cycle, four instructions together, and whose divisions keep one of the two units of
  products busy for 2 cycles. So it was measured on AMD Zen 3, for ``vblendvps`` on Zen 4, too; on
  Zen 5 a division takes 2.5 cycles;
- ``loop``: the cycles that the loop takes over numbers in the first-level cache;
- ``epilogue``: the cycles by which a product of matrices takes longer with the function as its
  epilogue, and their ratio to the bound.

All are cycles for one vector. A cycle is the time of two independent fused multiply-adds, measured
before each function, as the clock of a processor is not constant::

    python -m experiments.epilogues --lanes 16 8 --page docs/performance.md

With fewer lanes than the processor has, the code is that of a processor with vectors of that
width. Measure on a quiet machine; the shortest of all runs counts. ``--page`` puts each table
between the marks of a page for its number of lanes.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.pages import processor, replace_part
from experiments.transposes import clock, clock_kernel
from glow_nb.codegen.compile import compile_assembly
from glow_nb.codegen.measure_limits import CHAINS, arithmetic_source
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.products.convolution_cost import product_candidates
from glow_nb.kernels.products.matmul import MatMulShape
from glow_nb.kernels.target import Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Instruction, Register, kernel_operands
from glow_nb.llir.stack import StackInst
from glow_nb.types import Array, ElementKind, TensorType


@dataclass(frozen=True)
class Function:
    """A row of the table.

    Attributes:
        node: The operator.
        method: What it is computed from, in words.
        attributes: Those of the operator.
    """

    node: type[Node]
    method: str
    attributes: dict[str, Any] = field(default_factory=dict)


FUNCTIONS = {
    "exp": Function(ops.Exp, "polynomial of degree 6"),
    "tanh": Function(ops.Tanh, "that of exp, quotient"),
    "sigmoid": Function(ops.Sigmoid, "that of exp, quotient"),
    "swish": Function(ops.Swish, "sigmoid", {"alpha": 1.0}),
    "hard_swish": Function(ops.HardSwish, "limits"),
    "softplus": Function(ops.Softplus, "that of exp, and degree 8"),
    "erf": Function(ops.Erf, "that of exp in one of degree 6, and degree 5"),
    "gelu": Function(ops.Gelu, "that of exp, quotient of degrees 4 and 5", {"approximate": "none"}),
    "gelu by tanh": Function(ops.Gelu, "sigmoid of a cubic", {"approximate": "tanh"}),
}
SHORT, LONG = 1024, 3072
"""Numbers of two loops, of which the difference counts; both fit the first-level cache."""

PRODUCT = MatMulShape(batch=1, rows=64, inner=64, depth=192)

CLASSES = {
    "products": r"vf?n?m(add|sub|ul)\d*ps|vblendvps",
    "sums": r"v(add|sub|min|max|cmp\w*)ps|vps[lr]\w+|vcvt\w+|vpcmp\w+|vpmovd2m",
    "divisions": r"v(div|sqrt)ps",
    "moves": r"vp?mov(?!d2m)\w+|vp?broadcast\w+",
}
"""Patterns of instructions; what fits none is another one."""
STORE = r"vmov\w+\s+%[yz]mm\d+, .*\(%r[^sb].*"
"""What stores a result, and not a register for which there is no room."""

DIVISION_CYCLES = 2.0
DEVIATION = 2.0
"""Of the functions' arguments; they see all branches."""
CYCLES = 9600
"""Cycles that one run of the kernel takes by which a cycle is measured: a multiple of CHAINS."""
LANES = (8, 16)


def buffer(name: str, *sizes: int) -> Buffer:
    """Return a buffer of ``float32``."""
    return Buffer(name, TensorType(ElementKind.FLOAT32, sizes))


def applied(name: str, dest: Buffer, operand: Buffer) -> Instruction:
    """Return the instruction of the function *name*."""
    function = FUNCTIONS[name]
    instruction: Instruction = instruction_for(function.node)(dest, operand, **function.attributes)
    return instruction


def loop(name: str, elements: int) -> Instruction:
    """Return the function of a row of numbers."""
    return applied(name, buffer("dest", elements), buffer("src", elements))


def product(target: Target, name: str = "") -> Instruction:
    """Return a product of matrices, with the function *name* as its epilogue."""
    block = product_candidates(PRODUCT, ElementKind.FLOAT32, target)[0].block
    dest = buffer("dest", PRODUCT.rows, PRODUCT.depth)
    lhs = buffer("lhs", PRODUCT.rows, PRODUCT.inner)
    rhs = buffer("rhs", -(-PRODUCT.depth // block), PRODUCT.inner, block)
    made = Register("made", dest.type) if name else dest
    head = PackedMatMulInst(made, lhs, rhs, None, depth=PRODUCT.depth, block=block)
    return StackInst.of([head, applied(name, dest, made)]) if name else head


def counted(name: str, target: Target) -> dict[str, float]:
    """Return how many instructions of each class the loop of *name* has for one vector."""
    lines = max(
        _loops(compile_assembly(generate_kernel(loop(name, LONG), target), target)), key=len
    )
    register = "zmm" if target.native_lanes == max(LANES) else "ymm"
    vectors = [line for line in lines if register in line]
    stores = sum(bool(re.fullmatch(STORE, line)) for line in vectors)
    opcodes = Counter(line.split()[0] for line in vectors)
    found = dict.fromkeys((*CLASSES, "others"), 0.0)
    for opcode, count in opcodes.items():
        fitting = (kind for kind, form in CLASSES.items() if re.fullmatch(form, opcode))
        found[next(fitting, "others")] += count / stores
    del found["moves"]
    return found


def _loops(assembly: str) -> Iterator[list[str]]:
    """Yield the lines of each innermost loop."""
    lines = [line.strip() for line in assembly.split("\n")]
    places = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    for number, line in enumerate(lines):
        begin = places.get(line.split()[-1], number) if line.startswith("j") else number
        body = lines[begin + 1 : number]
        if body and not any(each.startswith(".LBB") for each in body):
            yield body


def bound(found: dict[str, float]) -> float:
    """Return the least cycles of one vector by the model of the module's text."""
    products = found["products"] + found["divisions"] * DIVISION_CYCLES
    return max(products / 2, found["sums"] / 2, sum(found.values()) / 4)


def numbers(*sizes: int, deviation: float = DEVIATION) -> Array:
    """Return normally distributed numbers."""
    return np.random.default_rng(0).normal(0, deviation, sizes).astype(np.float32)


def operands(instruction: Instruction) -> list[Array]:
    """Return the result and the operands of a product, whose numbers are as large as the loop's."""
    deviation = (DEVIATION / PRODUCT.inner**0.5) ** 0.5
    buffers = kernel_operands(instruction)
    return [numbers(*each.type.shape, deviation=deviation) for each in buffers]


@dataclass(frozen=True)
class Clocks:
    """What measures the time of one function, in seconds.

    Attributes:
        cycles: Of CYCLES cycles.
        short: Of a loop over SHORT numbers.
        long: Of a loop over LONG numbers.
        plain: Of the product alone.
        fused: Of the product with the function as its epilogue.
    """

    cycles: Callable[[], float]
    short: Callable[[], float]
    long: Callable[[], float]
    plain: Callable[[], float]
    fused: Callable[[], float]

    @classmethod
    def of(cls, name: str, target: Target) -> Clocks:
        """Compile what they measure."""
        step = [numbers(CHAINS * target.lanes), np.array([1, 2 * CYCLES // CHAINS], np.int64)]
        short, long = (
            clock(loop(name, size), [numbers(size), numbers(size)], 1, target)
            for size in (SHORT, LONG)
        )
        plain = product(target)
        arrays = operands(plain)
        return cls(
            clock_kernel(arithmetic_source(target), step, 1, target),
            short,
            long,
            clock(plain, arrays, 1, target),
            clock(product(target, name), arrays, 1, target),
        )

    def measured(self, lanes: int, runs: int) -> tuple[float, float]:
        """Return the cycles of one vector in the loop and in the epilogue, by the shortest runs.

        All are run in turn, so that they see the same clock.
        """
        each = (self.cycles, self.short, self.long, self.plain, self.fused)
        rounds = [[seconds() for seconds in each] for _ in range(runs)]
        cycles, short, long, plain, fused = (min(times) for times in zip(*rounds, strict=True))
        cycle = cycles / CYCLES
        in_loop = (long - short) / (LONG - SHORT)
        in_epilogue = (fused - plain) / (PRODUCT.rows * PRODUCT.depth)
        return in_loop * lanes / cycle, in_epilogue * lanes / cycle


def target_of(lanes: int) -> Target:
    """Return this machine, as if its vectors had that many lanes."""
    host = Target.host()
    if lanes >= host.native_lanes:
        return host
    is_wide = re.compile("[+-](avx512|avx10|evex512)")
    features = (f"-{f[1:]}" if is_wide.match(f) else f for f in host.features.split(","))
    return replace(host, features=",".join(features), lanes=lanes)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--lanes", nargs="+", type=int, choices=LANES, default=[8], help="a table for each"
    )
    parser.add_argument("--runs", type=int, default=31, help="the shortest counts")
    parser.add_argument("--page", type=Path, help="file whose tables are replaced")
    options = parser.parse_args(arguments)
    for lanes in options.lanes:
        text = f"{processor()}, one thread, float32.\n\n{table(target_of(lanes), options.runs)}"
        if options.page is None:
            print(text)
        else:
            replace_part(options.page, f"epilogues of {lanes} lanes", text)


def table(target: Target, runs: int) -> str:
    """Return the rows of one width."""
    lines = [
        f"| {target.lanes} lanes | computed by | instructions | bound | loop | | epilogue | |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, function in FUNCTIONS.items():
        found = counted(name, target)
        in_loop, in_epilogue = Clocks.of(name, target).measured(target.lanes, runs)
        lines.append(row(f"{name} | {function.method}", found, in_loop, in_epilogue))
    return "\n".join(lines)


def row(title: str, found: dict[str, float], in_loop: float, in_epilogue: float) -> str:
    """Return a row of the table."""
    text, least = " + ".join(f"{count:.3g}" for count in found.values()), bound(found)
    measured = (f"{cycles:.1f} | {cycles / least:.2f}" for cycles in (in_loop, in_epilogue))
    return f"| {title} | {text} | {least:.1f} | {' | '.join(measured)} |"


if __name__ == "__main__":
    main()
