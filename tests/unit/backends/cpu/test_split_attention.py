"""Keys of attention that threads share."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.split_attention import part_keys_of, split_attention
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.kernels.machine.rows import ZEN3
from glow_nb.kernels.target import Target


def step(heads: int, groups: int, keys: int, kind: str = "float32", queries: int = 1) -> Function:
    """Return a network of one attention."""
    b = Builder("step")
    shapes = {"q": (heads, queries), "k": (groups, keys), "v": (groups, keys)}
    q, k, v = (b.input(n, f"{kind}<1 x {h} x {t} x 16>") for n, (h, t) in shapes.items())
    b.save(b.emit(ops.Attention(q, k, v, None, scale=0.25, masked_rows="zero")), "y")
    return b.function()


def parts_of(function: Function, threads: int) -> int | None:
    (node,) = (node for node in function.nodes if isinstance(node, ops.Attention))
    return part_keys_of(node, Target.of(ZEN3), threads)


@pytest.mark.parametrize(
    ("heads", "groups", "keys", "threads", "wanted"),
    [
        (1, 1, 4096, 2, 2048),
        (8, 1, 4100, 2, 2112),
        (3, 3, 4096, 2, 2048),  # 3 heads for 2 threads: 1.5 in place of 2
        (12, 12, 8192, 2, None),  # threads share the heads
        (12, 12, 8192, 8, 4096),
        (11, 11, 8192, 10, 1664),
        (1, 1, 8192, 1, None),
        (1, 1, 900, 2, None),  # too few keys
        (3, 3, 100, 2, None),
        (32, 1, 8192, 2, None),  # threads share the rows
    ],
)
def test_keys_are_cut_where_threads_would_wait(
    heads: int, groups: int, keys: int, threads: int, wanted: int | None
) -> None:
    assert parts_of(step(heads, groups, keys), threads) == wanted


def test_results_stay_the_same() -> None:
    before = step(4, 1, 1100)
    after = split_attention(before, threads=2)
    opcodes = [node.opcode for node in after.nodes]
    assert opcodes[:2] == ["attention_parts", "merge_attention_parts"]
    random = np.random.default_rng(0)
    feeds = {x.name: random.normal(size=x.type.shape).astype(np.float32) for x in before.inputs}
    found, wanted = (evaluate(function, feeds)["y"] for function in (after, before))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_16_bit_kinds_stay_whole() -> None:
    before = step(1, 1, 4096, "float16")
    assert split_attention(before, threads=2) is before


@pytest.mark.jit
def test_network_shares_keys() -> None:
    function = step(4, 1, 1100)
    net = glow_nb.compile(function, threads=2)
    assert "attention_parts" in str(net.program)
    random = np.random.default_rng(0)
    feeds = {x.name: random.normal(size=x.type.shape).astype(np.float32) for x in function.inputs}
    wanted = evaluate(function, feeds)["y"]
    np.testing.assert_allclose(net.run(feeds)["y"], wanted, rtol=1e-5, atol=1e-6)
