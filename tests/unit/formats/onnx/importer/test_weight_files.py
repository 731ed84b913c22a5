"""Large weights are read from their file where they are needed, and not kept."""

from __future__ import annotations

import copy
import gc
import io
import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from typing_extensions import override

import glow_nb
from glow_nb.base.errors import ModelError
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx, load_model, weight_files, wire
from glow_nb.formats.onnx.importer.weight_files import StoredNumbers
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function
from glow_nb.hlir.recipe import NodeRecipe
from tests.unit.formats.onnx.importer.models import model, value, weight

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


@pytest.mark.parametrize("most", [0, 1 << 28])
def test_a_file_with_another_time_and_the_same_content_is_read(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a weight that was read before, or of which the checksum was taken in time."""
    monkeypatch.setattr(weight_files, "MOST_SUMMED_BYTES", most)
    path = tmp_path / "m.onnx"
    path.write_bytes(product(0).SerializeToString())
    function = import_onnx(path)
    if not most:
        check(function)
    path.write_bytes(product(0).SerializeToString())
    os.utime(path, ns=(0, 0))
    check(function)
    content = bytearray(product(0).SerializeToString())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(1, 1))
    with pytest.raises(ModelError, match="the file has changed"):
        check(function)


def test_a_weight_that_nobody_has_read_in_time_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "MOST_SUMMED_BYTES", 0)
    path = tmp_path / "m.onnx"
    path.write_bytes(product(0).SerializeToString())
    function = import_onnx(path)
    os.utime(path, ns=(0, 0))
    with pytest.raises(ModelError, match="the file has changed"):
        check(function)


def test_a_copy_has_numbers_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(product().SerializeToString())
    (numbers,) = stored(import_onnx(path))
    np.testing.assert_array_equal(copy.deepcopy(numbers), matrix(0))


@pytest.fixture
def two_files_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_files, "MOST_OPEN_FILES", 2)
    monkeypatch.setattr(weight_files, "_OPEN", weakref.WeakSet())


@pytest.mark.usefixtures("two_files_stay_open")
def test_files_beyond_the_bound_are_read_and_closed(tmp_path: Path) -> None:
    names = [f"w{i}" for i in range(4)]
    steps = [helper.make_node("MatMul", [a, b], [c]) for a, b, c in _chain(names)]
    weights = [weight(name, matrix(0)) for name in names]
    proto = model(steps, [X], weights=weights)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=False)
    function = import_onnx(tmp_path / "m.onnx")
    assert len(function.constants) == 4
    assert len(stored(function)) == 1  # the file of the model is the other one


@pytest.mark.usefixtures("two_files_stay_open")
def test_the_bound_holds_for_all_models_together(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(product().SerializeToString())
    functions = [import_onnx(path) for _ in range(4)]
    assert [len(stored(function)) for function in functions] == [1, 1, 0, 0]
    path.unlink()
    for function in functions:
        check(function)


@pytest.mark.usefixtures("two_files_stay_open")
def test_what_does_not_stay_open_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(product().SerializeToString())
    loaded = [load_model(path) for _ in range(4)]
    check(import_onnx(loaded[-1]))
    path.write_bytes(product(1).SerializeToString())
    with pytest.raises(ModelError, match=r"m\.onnx: the file has changed"):
        import_onnx(loaded[-2])


@pytest.mark.parametrize("as_bytes", [False, True])
def test_large_sparse_constants_of_nodes_are_read(as_bytes: bool, tmp_path: Path) -> None:
    numbers, places = np.arange(1, 2001, dtype=np.float32), np.arange(0, 6000, 3)
    sparse = helper.make_sparse_tensor(weight("v", numbers), weight("i", places), [6000])
    node = helper.make_node("Constant", [], ["y"], sparse_value=sparse)
    content = model([node]).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    dense = np.zeros(6000, np.float32)
    dense[places] = numbers
    function = import_onnx(content if as_bytes else path)
    got = evaluate(function, {"x": np.zeros((2, 3), np.float32)})["y"]
    np.testing.assert_array_equal(got, dense)


@pytest.mark.parametrize("name", ["value_ints", "value_floats", "value_strings"])
def test_lists_in_attributes_are_not_walked(name: str) -> None:
    """Each element is a field of its own, so that looking at each takes seconds for a million."""
    kind = {"value_ints": int, "value_floats": float, "value_strings": str}[name]
    node = helper.make_node("Constant", [], ["y"])
    node.attribute.append(helper.make_attribute(name, [kind(i) for i in range(5000)]))
    content = model([node]).SerializeToString()
    stream = _Counting(content)
    assert wire.read_skeleton(stream, len(content)) == content
    assert stream.reads < 500


class _Counting(io.BytesIO):
    reads = 0

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


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
