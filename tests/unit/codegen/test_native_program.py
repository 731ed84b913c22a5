"""Programs as data: bytes out, bytes in, and the same results, wherever they are loaded."""

import dataclasses
import json
import mmap
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.base.alignment import aligned_empty
from glow_nb.base.counted import Counted
from glow_nb.base.errors import CompileError, FeedError, MemoryLimitError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.container import read_container, write_container
from glow_nb.codegen.load_native import load
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.codegen.program_memory import PlacedWeight, ProgramMemory
from glow_nb.codegen.run_layout import Binding, OutputBinding
from tests.unit.codegen.samples import FLOAT32, SIZE, Chain, run_python

pytestmark = pytest.mark.jit

NETWORK = f"""
constant %w : float32<8 x 4> = dense {[n / 8 for n in range(32)]}
func @main(%x : float32<3 x 8>, %s : float32<3 x 4>) -> (%s : float32<3 x 4>,
    %places : int64<2 x 24> counted by %n along 1, %z : float32<3 x 4>, %n : int64<>) {{
  %product = mat_mul(%x, %w) : float32<3 x 4>
  %softmax = softmax(%product) {{axis = 1}} : float32<3 x 4>
  %sum = add(%softmax, %s) : float32<3 x 4>
  %non_zero = non_zero(%x) : int64<2 x 24>, int64<>
  %s_save = save(%sum, %s)
  %z_save = save(%softmax, %z)
  %places_save = save(%non_zero#0, %places)
  %n_save = save(%non_zero#1, %n)
}}
"""
"""An output that is an input, a counted one, and an activation in the arena."""


@pytest.fixture(scope="module", params=[1, 2])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("network") / "net.glow"
    path.write_text(NETWORK)
    return glow_nb.compile(path, threads=request.param)


def executable_of(network: Any) -> CpuExecutable:
    executable = network.executable
    assert isinstance(executable, CpuExecutable)
    return executable


def feeds_of(native: NativeProgram) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 3, b.type.shape).astype(b.type.kind.dtype) for b in native.inputs]


def rewritten(native: NativeProgram, change: Callable[[Any], Any]) -> bytes:
    """Return the bytes of *native* after *change* of its description, with a right checksum."""
    texts, pieces = read_container(native.to_bytes())
    description = json.loads(texts["program"])
    change(description)
    return write_container(texts | {"program": json.dumps(description)}, pieces)


def test_every_field_comes_back(network: Any) -> None:
    native = executable_of(network).native
    again = NativeProgram.from_bytes(native.to_bytes())
    for field in dataclasses.fields(native):
        if field.name != "memory":
            assert getattr(again, field.name) == getattr(native, field.name), field.name
    assert again.memory.arena_bytes == native.memory.arena_bytes > 0
    assert again.memory.weights == native.memory.weights
    for block, other in zip(again.memory.blocks, native.memory.blocks, strict=True):
        np.testing.assert_array_equal(block, other)
    assert again.to_bytes() == native.to_bytes()
    assert [kernel.symbol for kernel in again.kernels] == [k.symbol for k in network.kernels]
    assert again.kernels[0].cost == network.kernels[0].cost


def test_loaded_again_it_gives_the_same_results(network: Any) -> None:
    executable = executable_of(network)
    feeds = feeds_of(executable.native)
    loaded = load(NativeProgram.from_bytes(executable.native.to_bytes()))
    kept = [feed.copy() for feed in feeds]
    for got, expected in zip(loaded.run(feeds), executable.run(feeds), strict=True):
        assert got.dtype == expected.dtype and got.tobytes() == expected.tobytes()
    for feed, copy in zip(feeds, kept, strict=True):
        np.testing.assert_array_equal(feed, copy)


ANOTHER_PROCESS = """
    import sys
    import numpy as np
    from glow_nb.codegen.load_native import load
    from glow_nb.codegen.native_program import NativeProgram

    with open("program", "rb") as file:
        loaded = load(NativeProgram.from_bytes(file.read()))
    with np.load("feeds.npz") as feeds:
        results = loaded.run([feeds[name] for name in feeds])
    np.savez("results.npz", *results)
    parts = ("numba", "onnx", "glow_nb.hlir", "glow_nb.llir", "glow_nb.fuse")
    parts += ("glow_nb.formats.onnx.importer",)
    print(*(part for part in parts if part in sys.modules))
"""


def run_elsewhere(native: NativeProgram, feeds: list[Array], folder: Path) -> list[Array]:
    """Run *native* in a process that has only its bytes."""
    (folder / "program").write_bytes(native.to_bytes())
    np.savez(folder / "feeds.npz", *feeds)
    assert run_python(ANOTHER_PROCESS, folder) == "\n"
    with np.load(folder / "results.npz") as results:
        return [results[name] for name in results]


def test_another_process_needs_neither_numba_nor_the_graph(network: Any, tmp_path: Path) -> None:
    executable = executable_of(network)
    feeds = feeds_of(executable.native)
    results = run_elsewhere(executable.native, feeds, tmp_path)
    for got, expected in zip(results, executable.run(feeds), strict=True):
        assert got.tobytes() == expected.tobytes()
    assert not (tmp_path / "cache").exists(), "loading asks no cache"


def test_constants_of_another_program_go_along(tmp_path: Path) -> None:
    w = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 32])],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    net: Any = glow_nb.compile(proto, sizes="each")
    first, second = (np.full((rows, 32), 0.5, np.float32) for rows in (8, 9))
    net.run(first)
    expected = net.run(second)["y"]
    (native,) = (
        native
        for variant in net.variants
        if (native := executable_of(variant).native).inputs[0].type.shape == second.shape
    )
    assert native.memory.borrowed and not native.memory.constants.size
    (result,) = run_elsewhere(native, [second], tmp_path)
    np.testing.assert_array_equal(result, expected)


def test_constants_are_referred_to_and_not_copied() -> None:
    chain = Chain(2)
    native = chain.make()
    assert native.memory.constants is chain.constants
    assert load(native).layout.memory is native.memory


def test_a_mapped_file_is_read_in_place(tmp_path: Path) -> None:
    native = Chain(2).make()
    (tmp_path / "program").write_bytes(native.to_bytes())
    with open(tmp_path / "program", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    content = memoryview(mapped)
    again = NativeProgram.from_bytes(content)
    assert np.shares_memory(again.memory.constants, np.asarray(content))
    x = np.arange(SIZE, dtype=np.float32)
    assert load(again).run([x])[0].tobytes() == load(native).run([x])[0].tobytes()


def test_stamps_of_a_kernel_that_one_thread_runs() -> None:
    chain = Chain(3)
    chain.calls[1] = dataclasses.replace(chain.calls[1], alone=True)
    x = np.arange(SIZE, dtype=np.float32)
    y, stamps = np.zeros_like(x), np.zeros((2, 3, 2), np.int64)
    load(chain.make(stamped=True, threads=2)).run_into([x], [y, stamps])
    assert (y == chain.expected(x)).all()
    assert (stamps[1, 1] == 0).all()
    assert (stamps[0] > 0).all() and (stamps[1, (0, 2)] > 0).all()


def test_stamped_program_comes_back_with_its_clock() -> None:
    chain = Chain(3)
    native = NativeProgram.from_bytes(chain.make(stamped=True, threads=2).to_bytes())
    assert native.outputs[-1].type == TensorType(ElementKind.INT64, (2, 3, 2))
    x = np.arange(SIZE, dtype=np.float32)
    y, stamps = load(native).run([x])
    assert (y == chain.expected(x)).all()
    assert (stamps[..., 1] >= stamps[..., 0]).all() and (stamps > 0).all()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("entry", "threads"), 0, "threads=0"),
        (("entry", "threads"), 1 << 70, "there must be 1 to 1024"),
        (("entry", "threads"), "1", "description.entry.threads: '1' stands where int"),
        (("entry", "phases"), 0, "the entry has 0 phases"),
        (("entry", "phases"), 1 << 70, f"the entry has {1 << 70} phases; there must be 1 to"),
        (("arena_bytes",), -1, "arena: -1 bytes"),
        (("arena_bytes",), 1 << 60, "no machine has more"),
        (("entry", "text"), "def entry(): ...", "objects: there is none of glow_entry_"),
        (("entry", "scratch_bytes"), -64, "scratch: -64 bytes"),
        (("target", "lanes"), 5, "target: 5 lanes"),
        (("inputs", 0, "type", "shape"), [-1], "a dimension is negative"),
        (("outputs", 0, "type", "kind"), "float", "'float' stands where ElementKind"),
        (("outputs", 0, "fed_by"), 1, "there is no input 1"),
        (("outputs", 0, "counted"), {"count": "n", "axis": 0}, "counted by %n"),
        (("kernels",), {}, "description.kernels: {} stands where tuple"),
        (("besides",), 1, "besides"),
    ],
)
def test_made_up_descriptions(path: tuple[Any, ...], value: Any, message: str) -> None:
    def change(description: Any) -> None:
        for key in path[:-1]:
            description = description[key]
        description[path[-1]] = value

    with pytest.raises(CompileError, match=f"^native program: .*{message}"):
        NativeProgram.from_bytes(rewritten(Chain(2).make(), change))


def weight(**changes: Any) -> dict[str, Any]:
    type = {"kind": "float32", "shape": [10], "scale": None, "offset": None}
    return {"name": "w", "type": type, "block": 0, "offset_bytes": 0} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 1}, "weight 'w': in block 1 of 1"),
        ({"block": -1}, "weight 'w': in block -1 of 1"),
        ({"offset_bytes": 4032}, "bytes 4032 to 4072 are no aligned part of a block of 4012"),
        ({"offset_bytes": -64}, "bytes -64 to -24"),
        ({"offset_bytes": 4}, "bytes 4 to 44"),
    ],
)
def test_weights_outside_of_the_constants(changes: dict[str, Any], message: str) -> None:
    native = Chain(2).make()
    NativeProgram.from_bytes(rewritten(native, lambda d: d["weights"].append(weight())))
    with pytest.raises(CompileError, match=message):
        NativeProgram.from_bytes(
            rewritten(native, lambda d: d["weights"].append(weight(**changes)))
        )


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"format": "glow_nb native program 0"}, "format is 'glow_nb native program 0', this"),
        ({"runtime": "old", "glow_nb": "0.0.1"}, "glow_nb 0.0.1 made it, .* this version"),
        ({"program": "[" * 100_000}, "description is not JSON"),
        ({"program": "nonsense"}, "description is not JSON"),
        ({"program": "3"}, "description: 3 stands where _Manifest"),
    ],
)
def test_versions_and_descriptions_that_cannot_be_read(texts: Any, message: str) -> None:
    said, pieces = read_container(Chain(2).make().to_bytes())
    with pytest.raises(CompileError, match=f"^native program: .*{message}"):
        NativeProgram.from_bytes(write_container(said | texts, pieces))


@pytest.mark.parametrize(("missing", "message"), [("object.", "objects"), ("constants.", "block")])
def test_missing_pieces(missing: str, message: str) -> None:
    said, pieces = read_container(Chain(2).make().to_bytes())
    kept = {name: piece for name, piece in pieces.items() if not name.startswith(missing)}
    with pytest.raises(CompileError, match=message):
        NativeProgram.from_bytes(write_container(said, kept))


@pytest.mark.parametrize("content", ["model.bin", np.zeros(8)[::2]])
def test_what_is_no_bytes_is_refused(content: Any) -> None:
    with pytest.raises(CompileError, match="is not bytes that lie side by side"):
        NativeProgram.from_bytes(content)


def test_damage_anywhere_ends_in_our_error() -> None:
    content, rng = Chain(2).make().to_bytes(), random.Random(0)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        with pytest.raises(CompileError, match="^native program: .* damaged or cut off"):
            NativeProgram.from_bytes(damaged)


def test_damage_below_a_right_checksum_is_read_or_refused() -> None:
    said, pieces = read_container(Chain(2).make().to_bytes())
    rng, description = random.Random(0), bytearray(said["program"].encode())
    refused = 0
    for _ in range(500):
        damaged = bytearray(description)
        damaged[rng.randrange(len(damaged))] = rng.randrange(32, 127)
        texts = said | {"program": damaged.decode()}
        try:
            NativeProgram.from_bytes(write_container(texts, pieces))
        except CompileError:
            refused += 1
    assert refused > 250


def test_a_run_that_no_memory_is_there_for_is_refused_when_loaded(network: Any) -> None:
    native = executable_of(network).native
    memory = dataclasses.replace(native.memory, arena_bytes=1 << 47)
    with pytest.raises(MemoryLimitError, match="native program: it needs .*arena 140737488355328"):
        load(dataclasses.replace(native, memory=memory))


def test_code_for_another_processor_is_not_loaded() -> None:
    native = Chain(1).make()
    target = native.target
    other = dataclasses.replace(target, features=f"{target.features},+avx1024", cpu="newer")
    with pytest.raises(CompileError, match="the processor newer, this one, .*without avx1024"):
        load(dataclasses.replace(native, target=other))
    foreign = dataclasses.replace(target, triple="riscv64-unknown-linux-gnu")
    with pytest.raises(CompileError, match="it is for riscv64-unknown-linux-gnu, this machine is"):
        load(dataclasses.replace(native, target=foreign))
    fewer = ",".join(name for name in target.features.split(",") if not name.startswith("+avx512"))
    load(dataclasses.replace(native, target=dataclasses.replace(target, features=fewer)))


def test_code_for_a_processor_with_tiles_runs_without_them_unless_it_uses_them() -> None:
    native = Chain(1).make()
    target = dataclasses.replace(
        native.target, cpu="tiled", features=f"{native.target.features},+amx-more"
    )
    load(dataclasses.replace(native, target=target))
    with pytest.raises(CompileError, match="the processor tiled, this one, .*without amx-more"):
        load(dataclasses.replace(native, target=target, uses_tiles=True))


def test_programs_that_cannot_be() -> None:
    native = Chain(1).make()
    vector, matrix = native.inputs[0].type, TensorType(FLOAT32, (2, 3))
    with pytest.raises(CompileError, match="there is no input 0 of this type"):
        dataclasses.replace(native, outputs=(OutputBinding(matrix, "y", fed_by=0),))
    with pytest.raises(CompileError, match="is counted by %n, which is no int64<> output"):
        dataclasses.replace(native, outputs=(OutputBinding(vector, "y", None, Counted("n", 0)),))
    with pytest.raises(CompileError, match="objects: there is none of glow_runtime"):
        objects = {n: o for n, o in native.objects.items() if n != "glow_runtime"}
        dataclasses.replace(native, objects=objects)


def test_output_that_is_an_input_begins_as_a_copy() -> None:
    native = Chain(1).make()
    vector = native.inputs[0].type
    fed = dataclasses.replace(
        native,
        inputs=(*native.inputs, Binding(vector, "unused")),
        outputs=(OutputBinding(vector, "y", fed_by=1),),
    )
    x, begin = np.ones(SIZE, np.float32), np.full(SIZE, 7, np.float32)
    (begun,) = load(fed).new_outputs([x, begin])
    np.testing.assert_array_equal(begun, begin)
    assert not np.shares_memory(begun, begin)
    with pytest.raises(FeedError, match="run: 1 inputs, the program has 2"):
        load(fed).run([x])


def test_weights_are_arrays_in_the_blocks() -> None:
    block = aligned_empty(128)
    block[:] = range(128)
    type = TensorType(FLOAT32, (2, 3))
    memory = ProgramMemory(0, block, (block,), (PlacedWeight("w", type, 1, 64),))
    assert np.shares_memory(memory.arrays["w"], block)
    assert memory.arrays["w"].tobytes() == bytes(range(64, 88))
    with pytest.raises(ValueError, match="read-only"):
        memory.arrays["w"][...] = 0


def test_repr_is_one_line() -> None:
    assert repr(Chain(1).make()).startswith("<NativeProgram of 3 objects, ")
    assert len(repr(Chain(1).make())) < 200
