"""Large weights are read from their file where they are needed, and not kept."""

from __future__ import annotations

import copy
import gc
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import glow_nb
from glow_nb.errors import ModelError
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function
from glow_nb.hlir.recipe import NodeRecipe
from glow_nb.importers.onnx import import_onnx, weight_files
from glow_nb.importers.onnx.weight_files import StoredNumbers
from glow_nb.types import Array
from tests.unit.importers.models import model, value, weight

SIDE = 160  # a matrix of 100 KiB, which is large enough to stay in the file
X = value("x", (2, SIDE))
INPUT = np.linspace(-1, 1, 2 * SIDE, dtype=np.float32).reshape(2, SIDE)


def matrix(seed: int) -> Array:
    generator = np.random.default_rng(seed)
    return generator.standard_normal((SIDE, SIDE), np.float32) / np.float32(SIDE**0.5)


def product(seed: int = 0) -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return model([node], [X], weights=[weight("w", matrix(seed))])


def of_a_constant_node() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Constant", [], ["w"], value=weight("", matrix(0))),
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("Transpose", ["t"], ["u"]),
        helper.make_node("MatMul", ["x", "u"], ["y"]),
    ]
    return model(nodes, [X])


def of_a_branch() -> onnx.ModelProto:
    output = helper.make_empty_tensor_value_info("z")
    graphs = [
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["z"])], "body", [], [output], [weights]
        )
        for weights in (weight("w", matrix(0)), weight("w", -matrix(0)))
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=graphs[0], else_branch=graphs[1])
    condition = value("c", (), onnx.TensorProto.BOOL)
    return model([node], [X, condition])


def of_a_function() -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = of_a_constant_node().graph.node
    proto = model([helper.make_node("F", ["x"], ["y"], domain="own")], [X], opset_imports=opsets)
    proto.functions.append(helper.make_function("own", "F", ["x"], ["y"], body, opsets[:1]))
    return proto


def stored(function: Function) -> list[StoredNumbers]:
    """Return the numbers of constants of *function* that are still in the file."""
    payloads = [constant.payload for constant in function.constants]
    found: list[StoredNumbers] = []
    while payloads:
        payload = payloads.pop()
        if isinstance(payload, NodeRecipe):
            operands = payload._operands().keys()
            payloads += [v.payload for v in operands if isinstance(v, Constant)]
        elif isinstance(payload, StoredNumbers):
            found.append(payload)
    return found


def check(function: Function) -> None:
    feeds = {"x": INPUT, "c": np.array(True)}
    got = evaluate(function, {p.name: feeds[p.name] for p in function.inputs})["y"]
    np.testing.assert_allclose(got, INPUT @ matrix(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "count"), [(product, 1), (of_a_constant_node, 1), (of_a_branch, 2), (of_a_function, 1)]
)
@pytest.mark.parametrize("as_bytes", [False, True])
def test_large_weights_stay_where_they_are(
    make: Callable[[], onnx.ModelProto], count: int, as_bytes: bool, tmp_path: Path
) -> None:
    content = make().SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    function = import_onnx(content if as_bytes else path)
    assert len(stored(function)) == count
    check(function)


def test_external_data_stay_where_they_are(tmp_path: Path) -> None:
    onnx.save(product(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    function = import_onnx(tmp_path / "m.onnx")
    assert len(stored(function)) == 1
    (tmp_path / "w.bin").unlink()  # the open file is still there
    check(function)


@pytest.mark.parametrize("kind", ["float16", "int8", "int4", "bfloat16"])
def test_numbers_of_every_size_come_as_they_were_stored(kind: str, tmp_path: Path) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(getattr(onnx.TensorProto, kind.upper()))
    numbers = (np.arange(1 << 18) % 7 - 3).astype(dtype).reshape(512, 512)
    tensor = onnx.numpy_helper.from_array(numbers, "w")
    proto = model([helper.make_node("Cast", ["w"], ["y"], to=1)], [X], weights=[tensor])
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    function = import_onnx(path)
    assert len(stored(function)) == 1
    np.testing.assert_array_equal(evaluate(function, {"x": INPUT})["y"], numbers.astype(np.float32))


def test_a_file_that_takes_the_place_changes_nothing(tmp_path: Path) -> None:
    path, other = tmp_path / "m.onnx", tmp_path / "n.onnx"
    path.write_bytes(product(0).SerializeToString())
    function = import_onnx(path)
    other.write_bytes(product(1).SerializeToString())
    other.replace(path)
    check(function)


@pytest.mark.parametrize("length", [0, 2000, None])
def test_a_file_that_was_written_over_is_refused(length: int | None, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(product(0).SerializeToString())
    function = import_onnx(path)
    path.write_bytes(product(1).SerializeToString()[:length])
    os.utime(path, ns=(0, 0))  # a clock that is coarse must not hide the change
    with pytest.raises(ModelError, match=r"m\.onnx: the file has changed .* load the model again"):
        glow_nb.compile(function, backend="interpreter")


def test_a_copy_has_numbers_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(product().SerializeToString())
    (numbers,) = stored(import_onnx(path))
    np.testing.assert_array_equal(copy.deepcopy(numbers), matrix(0))


def test_files_beyond_the_bound_are_read_and_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "MOST_OPEN_FILES", 2)
    names = [f"w{i}" for i in range(4)]
    steps = [helper.make_node("MatMul", [a, b], [c]) for a, b, c in _chain(names)]
    weights = [weight(name, matrix(0)) for name in names]
    proto = model(steps, [X], weights=weights)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=False)
    function = import_onnx(tmp_path / "m.onnx")
    assert len(function.constants) == 4
    assert len(stored(function)) == 2


def _chain(names: Sequence[str]) -> list[tuple[str, str, str]]:
    made = ["x", *(f"y{i}" for i in range(len(names) - 1)), "y"]
    return list(zip(made, names, made[1:], strict=False))


def test_no_more_numbers_are_held_than_are_being_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packing works on two weights at a time here, each of which is read once more at most."""
    names = [f"w{i}" for i in range(12)]
    steps = [helper.make_node("MatMul", [a, b], [c]) for a, b, c in _chain(names)]
    path = tmp_path / "m.onnx"
    weights = [weight(name, matrix(i)) for i, name in enumerate(names)]
    path.write_bytes(model(steps, [X], weights=weights).SerializeToString())
    alive: list[weakref.ref[Array]] = []
    most = 0
    original = StoredNumbers.make

    def make(self: StoredNumbers) -> Array:
        nonlocal most
        array = original(self)
        alive.append(weakref.ref(array))
        gc.collect()
        most = max(most, sum(known() is not None for known in alive))
        return array

    monkeypatch.setattr(StoredNumbers, "make", make)
    glow_nb.compile(path, backend="interpreter", threads=1)
    assert len(alive) >= len(names)
    assert most <= 3
