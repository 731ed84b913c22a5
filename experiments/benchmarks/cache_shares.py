"""Which parts of the caches should the plans of products count on?

Sums are cut so that a panel's part of an inner block takes a share of the first-level cache, and
left rows are taken in blocks that take a share of the second-level cache (see
``glow_nb/kernels/products/caches.py``). Products of several kinds are planned with other shares,
measured in turn, and compared with the shares of today::

    python -m experiments.benchmarks.cache_shares

A number above 1 is a gain over today's shares. Shares that lead to the same kernel share its time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from experiments.arguments import thread_count
from experiments.benchmarks.printing import processor
from glow_nb.backends.cpu.measure_candidates import candidate_program, measure_programs
from glow_nb.backends.cpu.products import Product
from glow_nb.backends.cpu.select_packed_operators import candidates_of
from glow_nb.codegen.cache import ObjectCache
from glow_nb.codegen.pool import compile_objects
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.products import caches
from glow_nb.kernels.target import Target

LAYERS = (
    *((56, 256, 64, 1, 1), (28, 512, 256, 1, 1), (28, 128, 512, 1, 1), (14, 1024, 256, 1, 1)),
    *((14, 1024, 2048, 1, 2), (28, 128, 128, 3, 2), (14, 512, 512, 3, 2), (27, 96, 256, 5, 1)),
)
"""Convolutions: size of the image, channels, depth, taps, stride."""

PRODUCTS = ((128, 768, 3072), (128, 3072, 768), (197, 768, 768), (1500, 512, 2048))
"""Matrix products: rows, products of a sum, columns."""

SHARES = ((1.0, 0.5), (0.25, 0.5), (0.5, 0.5), (2.0, 0.5), (1.0, 0.25), (1.0, 0.75))
"""Shares of the first and of the second level to compare, those of today first."""

FAR_BYTES = 1 << 26


def convolution(size: int, channels: int, depth: int, taps: int, stride: int) -> Node:
    """Return a convolution of one image."""
    b = Builder()
    x = b.input("x", f"float32<1 x {size} x {size} x {channels}>")
    weights = b.constant("w", np.zeros((depth, taps, taps, channels), np.float32))
    bias = b.constant("b", np.zeros(depth, np.float32))
    window = Window((taps, taps), (stride, stride), (taps // 2,) * 4, (1, 1))
    return ops.Convolution(x, weights, bias, **window.attributes)


def product(rows: int, inner: int, columns: int) -> Node:
    """Return a matrix product with a constant right operand."""
    b = Builder()
    x = b.input("x", f"float32<{rows} x {inner}>")
    return ops.MatMul(x, b.constant("w", np.zeros((inner, columns), np.float32)))


@contextmanager
def planned_with(target: Target, shares: tuple[float, float]) -> Iterator[Target]:
    """Plan with other shares, and with chains as long as they allow."""
    today = caches.LONGEST_CHAIN
    caches.LONGEST_CHAIN = max(today, int(today * shares[0]))
    try:
        yield target.with_machine(l1_share=shares[0], l2_share=shares[1])
    finally:
        caches.LONGEST_CHAIN = today


def measure(node: Product, target: Target, threads: int) -> list[float]:
    """Return the time of *node* in seconds for each pair of shares."""
    candidate = next(
        w for w in candidates_of(node, target, "off", 1, threads) if w.plan.algorithm == "direct"
    )
    program = candidate_program(node, candidate, FAR_BYTES)
    texts = []
    for shares in SHARES:
        with planned_with(target, shares) as other:
            sources = [generate_kernel(instruction, other) for instruction in program.work]
            compile_objects(sources, other, cache=ObjectCache())
            texts.append("".join(source.text for source in sources))
    times: dict[str, float] = {}
    for shares, text in zip(SHARES, texts, strict=True):
        if text not in times:
            with planned_with(target, shares) as other:
                (times[text],) = measure_programs([program], other, threads)
    return [times[text] for text in texts]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=thread_count, default=1)
    threads = parser.parse_args().threads
    target = Target.host()
    print(f"{processor()}, threads {threads}; time with today's shares over that with others")
    print(f"{'product':24s}", *(f"{one:g} L1, {two:g} L2".rjust(15) for one, two in SHARES))
    gains = []
    nodes: list[tuple[tuple[int, ...], Node]] = [(s, convolution(*s)) for s in LAYERS]
    nodes += [(s, product(*s)) for s in PRODUCTS]
    for sizes, node in nodes:
        assert isinstance(node, Product)
        times = measure(node, target, threads)
        gains.append([times[0] / seconds for seconds in times])
        name = " x ".join(map(str, sizes))
        print(f"{name:24s}", *(f"{gain:15.3f}" for gain in gains[-1]), flush=True)
    means = np.exp(np.log(gains).mean(axis=0))
    print(f"{'geometric mean':24s}", *(f"{mean:15.3f}" for mean in means))


if __name__ == "__main__":
    main()
