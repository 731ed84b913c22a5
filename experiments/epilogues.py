"""Do functions of single elements cost what their arithmetic costs?

For each function, a row of the table has

- ``instructions``: those of one vector in the machine code of a plain loop (products, that is
  multiplications with or without an addition; sums, that is additions, limits, comparisons and
  shifts; divisions; others), without loads, stores and copies of registers;
- ``bound``: the cycles that they take at least, on a processor that starts two products and two
  sums in a cycle, four instructions together, and whose divisions keep one of the two units of
  products busy for 2.5 cycles (AMD Zen 5; measured for registers of 256 and of 512 bits);
- ``loop``: the cycles that the loop takes over numbers in the first-level cache;
- ``epilogue``: the cycles by which a product of matrices takes longer with the function as its
  epilogue, and their ratio to the bound.

All are cycles for one vector. A cycle is half the time of two independent fused multiply-adds::

    python -m experiments.epilogues --lanes 16 8

With fewer lanes than the processor has, the code is that of a processor with vectors of that
width. Measure on a quiet machine; the shortest of all runs counts.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from experiments.transposes import clock
from glow_nb.codegen.compile import compile_assembly
from glow_nb.codegen.measure_limits import measure_limits
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

FUNCTIONS: dict[str, tuple[type[Node], dict[str, Any]]] = {
    "exp": (ops.Exp, {}),
    "tanh": (ops.Tanh, {}),
    "sigmoid": (ops.Sigmoid, {}),
    "swish": (ops.Swish, {"alpha": 1.0}),
    "hard_swish": (ops.HardSwish, {}),
    "softplus": (ops.Softplus, {}),
    "erf": (ops.Erf, {}),
    "gelu": (ops.Gelu, {"approximate": "none"}),
    "gelu by tanh": (ops.Gelu, {"approximate": "tanh"}),
}
SHORT, LONG = 1024, 3072
"""Numbers of two loops, of which the difference counts; both fit the first-level cache."""

PRODUCT = MatMulShape(batch=1, rows=64, inner=64, depth=192)

CLASSES = {
    "products": r"vf?n?m(add|sub|ul)\d*ps",
    "sums": r"v(add|sub|min|max|cmp\w*)ps|vps[lr]\w+|vcvt\w+|vpcmp\w+|vpmovd2m",
    "divisions": r"v(div|sqrt)ps",
    "moves": r"vp?mov(?!d2m)\w+|vp?broadcast\w+",
}
"""Patterns of instructions; what fits none is another one."""
STORE = r"vmov\w+\s+%[yz]mm\d+, .*\(%r[^sb].*"
"""What stores a result, and not a register for which there is no room."""

DIVISION_CYCLES = 2.5
LANES = (8, 16)


def buffer(name: str, *sizes: int) -> Buffer:
    """Return a buffer of ``float32``."""
    return Buffer(name, TensorType(ElementKind.FLOAT32, sizes))


def applied(name: str, dest: Buffer, operand: Buffer) -> Instruction:
    """Return the instruction of the function *name*."""
    node, attributes = FUNCTIONS[name]
    instruction: Instruction = instruction_for(node)(dest, operand, **attributes)
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


def numbers(*sizes: int) -> Array:
    """Return normally distributed numbers, of which the functions see all branches."""
    return np.random.default_rng(0).normal(0, 2, sizes).astype(np.float32)


def clocks(target: Target) -> dict[str, Callable[[], float]]:
    """Return what measures each loop, the product alone (no name) and with each epilogue."""
    plain = product(target)
    result, *operands = (numbers(*each.type.shape) for each in kernel_operands(plain))
    found = {"": clock(plain, [result, *operands], 1, target)}
    for name in FUNCTIONS:
        for size in (SHORT, LONG):
            arrays = [numbers(size), numbers(size)]
            found[f"{name} {size}"] = clock(loop(name, size), arrays, 1, target)
        found[name] = clock(product(target, name), [result, *operands], 1, target)
    return found


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
    options = parser.parse_args(arguments)
    for lanes in options.lanes:
        table(target_of(lanes), options.runs)


def table(target: Target, runs: int) -> None:
    """Print the rows of one width."""
    timed = clocks(target)
    limits = [measure_limits(1, target).flop_rate for _ in range(3)]
    cycle = 4 * target.lanes / max(limits)
    rounds = [{name: each() for name, each in timed.items()} for _ in range(runs)]
    seconds = {name: min(times[name] for times in rounds) for name in timed}
    vectors = PRODUCT.rows * PRODUCT.depth / target.lanes
    print(f"| {target.lanes} lanes | instructions | bound | loop | | epilogue | |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in FUNCTIONS:
        found = counted(name, target)
        least = bound(found)
        text = " + ".join(f"{count:.3g}" for count in found.values())
        plain = (seconds[f"{name} {LONG}"] - seconds[f"{name} {SHORT}"]) / cycle
        plain *= target.lanes / (LONG - SHORT)
        extra = (seconds[name] - seconds[""]) / cycle / vectors
        print(
            f"| {name} | {text} | {least:.1f} | {plain:.1f} | {plain / least:.2f} "
            f"| {extra:.1f} | {extra / least:.2f} |"
        )


if __name__ == "__main__":
    main()
