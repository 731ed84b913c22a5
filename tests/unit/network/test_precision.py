"""Networks of float32 that multiply bfloat16: what is lowered, what stays, and who is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb import quant
from glow_nb.backends import Backend
from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.module import Module

WINDOW: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1)}


def network(size: Any = 12, name: str = "net") -> Function:
    """Return a convolution, a depthwise one, a pool, a softmax, and a dense layer at the end."""
    random = np.random.default_rng(0)
    b = Builder(name)

    def weights(called: str, *shape: int) -> Value:
        return b.constant(called, random.standard_normal(shape).astype(np.float32))

    def convolved(x: Value, called: str, depth: int, group: int) -> Value:
        filter = weights(f"{called}_w", depth, 3, 3, x.type.shape[-1] // group)
        made = ops.Convolution(
            *(x, filter, weights(f"{called}_b", depth)),
            kernel=(3, 3),
            pads=(1, 1, 1, 1),
            group=group,
            **WINDOW,
        )
        return b.emit(ops.Relu(b.emit(made, called)))

    x = convolved(b.input("x", f"float32<{size} x 8 x 8 x 4>"), "stem", 16, 1)
    x = convolved(x, "deep", 16, 16)
    pool = ops.MaxPool(x, kernel=(8, 8), pads=(0,) * 4, **WINDOW)
    rows = b.emit(ops.Reshape(b.emit(pool), (size, 16)))
    b.save(b.emit(ops.FullyConnected(rows, weights("w", 16, 5), weights("b", 5)), "head"), "y")
    return b.function()


def feed(rows: int = 12) -> dict[str, Array]:
    return {"x": np.random.default_rng(1).standard_normal((rows, 8, 8, 4)).astype(np.float32)}


def compiled(graph: Any, **options: Any) -> Any:
    return glow_nb.compile(graph, threads=1, cache=False, **options)


def kinds(net: Any) -> dict[str, str]:
    return {layer.name: layer.kind for layer in net.precision}


def error_of(found: Array, wanted: Array) -> float:
    squares = np.square(found.astype(np.float64) - wanted).mean()
    return float(np.sqrt(squares / np.square(wanted.astype(np.float64)).mean()))


@pytest.mark.jit
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_products_multiply_bfloat16_and_the_report_says_so(backend: str) -> None:
    full = compiled(network(), backend=backend)
    net = compiled(network(), backend=backend, precision="bfloat16")
    assert kinds(net) == {"stem": "bfloat16", "deep": "float32", "head": "bfloat16"}
    assert [layer.name for layer in net.precision.kept] == ["deep"]
    assert "groups of 1 channel" in str(net.precision)
    assert not full.precision.layers
    assert full.precision.precision == "float32"
    wanted, found = full.run(feed())["y"], net.run(feed())["y"]
    assert found.dtype == np.float32
    assert 0 < error_of(found, wanted) < 1e-2
    assert net.memory.constant_bytes < full.memory.constant_bytes
    assert "wide = true" in str(net.function)


def test_float32_is_what_is_computed_without_the_option() -> None:
    plain, asked = (
        compiled(network(), backend="interpreter", **given)
        for given in ({}, {"precision": "float32"})
    )
    assert str(plain.program) == str(asked.program)
    assert "bfloat16" not in str(plain.program)


def test_layers_are_kept_by_globs() -> None:
    net = compiled(network(), backend="interpreter", precision="bfloat16", keep=("h*", "stem"))
    assert kinds(net) == {"stem": "float32", "deep": "float32", "head": "float32"}
    reasons = {layer.name: layer.reason for layer in net.precision}
    assert (reasons["head"], reasons["stem"]) == ("keep='h*'", "keep='stem'")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "bf16"}, r"precision='bf16': give one of \('float32', 'bfloat16'\)"),
        ({"precision": "bfloat16", "keep": ("haed",)}, "'haed' fits no node .* mean 'head'"),
        ({"precision": "bfloat16", "keep": "head"}, "keep='head': give a tuple of texts"),
        ({"keep": ("head",)}, "precision is 'float32', which keeps all layers"),
    ],
)
@pytest.mark.parametrize("backend", ["interpreter", "cpu"])
def test_what_means_nothing_is_an_error(backend: str, options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compiled(network(), backend=backend, **options)


def test_a_program_computes_what_its_text_says() -> None:
    program = compiled(network(), backend="interpreter").program
    with pytest.raises(OptionError, match="the model is a program"):
        compiled(program, backend="interpreter", precision="bfloat16")


def test_products_of_integers_are_told_as_such() -> None:
    b = Builder()
    x = b.input("x", "float32<3 x 4>")
    numbers = np.arange(8, dtype=np.float32).reshape(4, 2)
    b.save(b.emit(ops.MatMul(x, b.constant("w", numbers)), "layer"), "y")
    weights = quant.convert_weights(b.function()).function
    (layer,) = compiled(weights, backend="interpreter", precision="bfloat16").precision
    assert (layer.kind, layer.reason) == ("int4", "its operands are integers")


def test_a_backend_of_ones_own_takes_it() -> None:
    own = Interpreter()
    net = compiled(network(), backend=own, precision="bfloat16")
    assert kinds(net)["stem"] == "bfloat16"
    assert Backend.precision == own.precision == "float32"


def test_a_backend_of_ones_own_has_a_precision_that_exists() -> None:
    class Half(Interpreter):
        precision: Any = "bf16"

    with pytest.raises(OptionError, match=r"its precision is 'bf16'; it may be one of"):
        compiled(network(), backend=Half())


def test_functions_of_a_module_share_the_layers_to_keep() -> None:
    first, second = network(name="first"), Builder("second")
    x = second.input("x", "float32<2 x 16>")
    w = second.constant("w", np.ones((16, 16), np.float32))
    second.save(second.emit(ops.MatMul(x, w), "other"), "y")
    module = Module((first, second.function()))
    net = compiled(module, backend="interpreter", precision="bfloat16", keep=("other",))
    assert kinds(net["first"])["head"] == "bfloat16"
    assert kinds(net["second"]) == {"other": "float32"}
    with pytest.raises(OptionError, match="'nothing' fits no node"):
        compiled(module, backend="interpreter", precision="bfloat16", keep=("nothing",))


def test_models_of_16_bits_compute_as_they_say() -> None:
    b = Builder()
    x, w = b.input("x", "float16<4 x 16>"), b.input("w", "float16<16 x 16>")
    b.save(b.emit(ops.MatMul(x, w), "half"), "y")
    net = compiled(b.function(), backend="interpreter", precision="bfloat16")
    (layer,) = net.precision
    assert (layer.kind, layer.reason) == ("float16", "it is of float16 in the model")
