"""What is it worth to run elementwise operators as one loop? The paper's Figure 8, and its price.

First the machine code of a stacked Add and Max, as in the paper's Figure 8: one load of each
operand, one store, and what is between them stays in registers. Then chains of one to six operators
over 64 MB, stacked and one by one, beside the time of a plain copy: a stack moves each byte in once
and out once, so a copy is what the memory allows::

    python -m experiments.figures.figure8_stacking --output docs

writes ``figure8.png`` and takes half a minute. Times are the shortest of many, into memory that was
written before, for the network as for the copy; the copy is NumPy's, each thread its share.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import glow_nb
from experiments.arguments import thread_count
from experiments.benchmarks.timing import seconds_of
from glow_nb.base.quantities import count_of
from glow_nb.codegen.compile import compile_assembly
from glow_nb.compiler import pipelines
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.target import Target
from glow_nb.network.pictures.style import BLUE, INK, RED, SUBTITLE, frame, own_style

UNSTACKED = tuple(step for step in pipelines.INSTRUCTIONS if step != "stack_instructions")
PIPELINES = (pipelines.INSTRUCTIONS, UNSTACKED)
MEGABYTE = 1 << 20


def add_and_max(size: int) -> Function:
    """Return ``y = max(a + b, 0)`` over *size* elements."""
    b = Builder()
    total = b.emit(ops.Add(b.input("a", f"float32<{size}>"), b.input("b", f"float32<{size}>")))
    b.save(b.emit(ops.Relu(total)), "y")
    return b.function()


def chain(length: int, size: int) -> Function:
    """Return the first *length* of six operators, one after the other, over *size* elements."""
    b = Builder()
    value: Value = b.input("x", f"float32<{size}>")
    shift = b.constant("shift", np.full(1, -0.5, np.float32))
    scale = b.constant("scale", np.full(1, 3.0, np.float32))
    steps: tuple[Callable[[Value], Node], ...] = (
        lambda x: ops.Add(x, shift),
        ops.Abs,
        lambda x: ops.Mul(x, scale),
        lambda x: ops.Clip(x, minimum=0.25, maximum=1.25),
        ops.Neg,
        ops.HardSwish,
    )
    for step in islice(steps, length):
        value = b.emit(step(value))
    b.save(value, "y")
    return b.function()


def inner_loop(function: Function) -> str:
    """Return the machine code of the innermost loop of a graph that is one kernel."""
    (stack,) = glow_nb.compile(function, threads=1).program.work
    target = Target.host()
    text = compile_assembly(generate_kernel(stack, target), target)
    labels = re.findall(r"^(\.?LBB\w+):", text, re.MULTILINE)
    loops = [
        re.search(rf"^{re.escape(at)}:(?:\n(?!\.?LBB).*)*?{re.escape(at)}$", text, re.M)
        for at in labels
    ]
    return max((loop.group() for loop in loops if loop), key=lambda t: len(re.findall("mm|v", t)))


@dataclass(frozen=True)
class Measurement:
    """Shortest seconds of a chain of *length* operators, stacked and one by one."""

    length: int
    stacked: float
    unstacked: float


def measure(length: int, x: np.ndarray, threads: int, runs: int) -> Measurement:
    """Time a chain over *x*, stacked and one by one in turn."""
    function = chain(length, x.size)
    nets = [glow_nb.compile(function, threads=threads, program_pipeline=p) for p in PIPELINES]
    rounds = [[net.profile({"x": x}, runs=runs, limits=False) for net in nets] for _ in range(3)]
    return Measurement(
        length, *(min(min(p.run_seconds) for p in ps) for ps in zip(*rounds, strict=True))
    )


def copy_seconds(source: np.ndarray, threads: int, runs: int) -> float:
    """Return the shortest time of a copy, each thread its share."""
    dest = np.zeros_like(source)
    shares = list(zip(np.array_split(dest, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        copy = partial(pool.map, lambda share: np.copyto(*share), shares)
        return min(seconds_of(lambda: list(copy())) for _ in range(runs))


def draw(found: list[Measurement], copy: float, size_bytes: int, threads: str, path: Path) -> None:
    """Draw the times over the length of the chain to the PNG file *path*.

    Args:
        found: What was measured.
        copy: Seconds of a copy.
        size_bytes: Of the array.
        threads: How many threads, in words.
        path: The file.
    """
    with own_style():
        figure = Figure(figsize=(8, 4.8))
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.085, 0.125, 0.89, 0.66))
        lengths = [m.length for m in found]
        lines = {"one by one": [m.unstacked for m in found], "stacked": [m.stacked for m in found]}
        for (name, seconds), colour, mark in zip(lines.items(), (RED, BLUE), "so", strict=True):
            axes.plot(
                lengths, [1e3 * s for s in seconds], f"{mark}-", color=colour, label=name, lw=2
            )
        axes.axhline(1e3 * copy, color=INK, ls="--", lw=1.5, label="a copy of the array")
        axes.set(ylim=(0, None), xticks=lengths, ylabel="milliseconds")
        axes.set_xlabel("elementwise operators in a chain")
        frame(axes)
        axes.grid(axis="y", color="white")
        axes.legend(frameon=False, loc="upper left")
        title = "Chains of elementwise operators, stacked and one by one"
        figure.text(0.085, 0.92, title, fontsize=13, fontweight="bold")
        said = (
            f"{size_bytes / MEGABYTE:g} MiB of float32, {threads}; after Figure 8 of the Glow paper"
        )
        figure.text(0.085, 0.85, said, fontsize=10, color=SUBTITLE)
        figure.savefig(path, dpi=160)


def main(arguments: list[str] | None = None) -> None:
    """Print the machine code and a table of the times, and write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path(), help="folder of figure8.png")
    parser.add_argument("--megabytes", type=float, default=64)
    parser.add_argument("--threads", type=thread_count, default=1)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args(arguments)
    print(f"y = max(a + b, 0), the inner loop:\n\n{inner_loop(add_and_max(1 << 20))}\n")
    size = int(options.megabytes * MEGABYTE) // 4
    x = np.random.default_rng(0).normal(size=size).astype(np.float32)
    copies = [copy_seconds(x, options.threads, options.runs)]
    found = []
    for length in range(1, 7):
        found.append(measure(length, x, options.threads, options.runs))
        copies.append(copy_seconds(x, options.threads, options.runs))
    copy = min(copies)
    print(f"copy {1e3 * copy:.2f} ms, {2e-9 * x.nbytes / copy:.1f} GB/s\n")
    print("operators    stacked  one by one  of copy's bandwidth  times as fast")
    for m in found:
        times = f"{1e3 * m.stacked:8.2f} ms {1e3 * m.unstacked:8.2f} ms"
        print(f"{m.length:9}{times} {copy / m.stacked:20.2f} {m.unstacked / m.stacked:14.1f}")
    options.output.mkdir(parents=True, exist_ok=True)
    threads = count_of(options.threads, "thread")
    draw(found, copy, x.nbytes, threads, options.output / "figure8.png")


if __name__ == "__main__":
    main()
