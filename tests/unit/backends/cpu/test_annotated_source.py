"""Source that people read names the nodes of the model; source that is compiled does not."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import MatMul, Relu, Softmax, Tanh

pytestmark = pytest.mark.jit


def two_layers(name: str = "layer") -> Function:
    """Two products of one shape with a ReLU each, and a softmax."""
    builder = Builder("net")
    value: glow_nb.Value = builder.input("x", TensorType(ElementKind.FLOAT32, (4, 8)))
    for number in range(2):
        weights = builder.constant(f"w{number}", np.full((8, 8), number + 1, np.float32))
        product = builder.emit(MatMul(value, weights), f"{name}{number}")
        value = builder.emit(Relu(product), f"relu{number}")
    builder.save(builder.emit(Softmax(value, 1), "probabilities"), "y")
    return builder.function()


def test_a_kernel_names_its_calls_nodes_operations_and_pointers() -> None:
    net = glow_nb.compile(two_layers(), threads=1)
    first, second, last = net.kernels
    assert first.symbol == second.symbol
    assert net.source.count(f"# {first.symbol}\n") == 1
    assert "# calls 0 and 1: %layer0, %relu0; %layer1, %relu1\n" in net.source
    assert "# call 0: %layer0, %relu0\n" in first.source
    assert "#   relu, applied to each result before it is stored\n" in first.source
    assert "#   softmax {axis = 1}\n#   dest float32<4 x 8> written, src float32<4 x 8> read\n" in (
        last.source
    )


def test_the_entry_names_the_nodes_of_each_call() -> None:
    text = glow_nb.compile(two_layers(), threads=1).source
    assert "    # 0: mat_mul: %layer0, %relu0\n" in text
    assert "    # 2: softmax: %probabilities\n" in text


def test_names_of_a_model_change_no_symbol() -> None:
    plain, odd = (
        glow_nb.compile(two_layers(name), threads=1)
        for name in ("layer", 'x"\nimport os\nos._exit(1)\n#')
    )
    assert [k.symbol for k in plain.kernels] == [k.symbol for k in odd.kernels]
    words = odd.source.replace("#", " ").split()
    escaped = ['%"x\\"\\nimport', "os\\nos._exit(1)\\n"]
    assert set(escaped) <= set(words)  # quoted, so that each comment stays one


def test_a_long_name_and_many_nodes_are_cut_short() -> None:
    builder = Builder("net")
    value: glow_nb.Value = builder.input("x", TensorType(ElementKind.FLOAT32, (5,)))
    for number in range(12):
        name = "n" * 500 if number == 0 else f"n{number}"
        value = builder.emit(Tanh(value), name)
    builder.save(value, "y")
    (kernel,) = glow_nb.compile(builder.function(), threads=1).kernels
    assert max(map(len, kernel.source.splitlines())) <= 100
    assert "and 4 more" in " ".join(kernel.source.split())


@pytest.mark.usefixtures("sharing_is_free")
def test_the_text_parses_as_python() -> None:
    ast.parse(glow_nb.compile(two_layers(), threads=2).source)


def test_functions_are_explained_below() -> None:
    text = glow_nb.compile(two_layers(), threads=1).source
    _, _, functions = text.partition("# The functions that kernels call:\n")
    for called in ("tile_dot", "load", "where"):
        assert f"# {called}(" in functions
    assert all(line.startswith("#") for line in functions.splitlines())
