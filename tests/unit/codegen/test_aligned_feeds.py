"""What is fed is copied to cache lines where kernels want that; all other memory begins there."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu import planned_calls
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.base.alignment import ALIGNMENT, aligned_empty
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.array_address import address_of
from glow_nb.codegen.load_native import load
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.open_program import OpenProgram
from glow_nb.codegen.result_memory import array_maker
from glow_nb.codegen.threads import Team
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Function
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import Instruction
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.saved.saved_executable import SavedExecutable
from glow_nb.runtime.devices.shared_memory import Slots
from tests.open_programs import compiled
from tests.unit.codegen.samples import SIZE, Chain
from tests.unit.kernels.open_cases import open_size
from tests.unit.network.saved.models import X, dense_model, needs_loader

pytestmark = pytest.mark.jit


def at_offset(x: Array, offset_bytes: int) -> Array:
    """Return a copy of *x* that begins so many bytes after a cache line."""
    memory = aligned_empty(x.nbytes + ALIGNMENT)[offset_bytes : offset_bytes + x.nbytes]
    place: Array = memory.view(x.dtype).reshape(x.shape)
    place[...] = x
    return place


def places_of(program: LoadedProgram) -> list[int]:
    """Return where the last run of *program* had its inputs and outputs."""
    contexts = program._contexts if isinstance(program, OpenProgram) else program._idle
    bound = len(program.layout.inputs) + len(program.layout.outputs)
    return [place or 0 for place in contexts[-1].pointers[-bound:]]


@pytest.fixture
def chain() -> Chain:
    """Return a program whose input is wanted on a cache line."""
    made = Chain(2)
    made.inputs = [replace(one, is_aligned=True) for one in made.inputs]
    return made


@pytest.mark.parametrize("offset", [0, 4, 16, 32])
def test_only_what_begins_elsewhere_is_copied(chain: Chain, offset: int) -> None:
    program = chain.load()
    x, y = at_offset(np.arange(SIZE, dtype=np.float32), offset), np.empty(SIZE, np.float32)
    for _ in range(2):
        x += 1
        program.run_into([x], [y])
        read, written = places_of(program)
        assert read % ALIGNMENT == 0
        assert (read == address_of(x)) == (offset == 0)
        assert written == address_of(y)
        np.testing.assert_array_equal(y, chain.expected(x))


@pytest.mark.parametrize("offset", [0, 16])
def test_each_way_to_run_does_so(chain: Chain, offset: int) -> None:
    program = chain.load()
    x, y = at_offset(np.arange(SIZE, dtype=np.float32), offset), np.empty(SIZE, np.float32)
    bound, direct = program.bind([x], [y]), program.direct_run(["x"], ["y"])
    assert direct is not None
    for number in range(3):
        x[number] = 100  # which a bound run sees
        bound()
        found = direct({"x": x})
        assert found is not None
        assert places_of(program)[0] % ALIGNMENT == 0
        for result in (y, found["y"], *program.run([x])):
            np.testing.assert_array_equal(result, chain.expected(x))


def test_inputs_are_read_where_they_lie_unless_asked_for() -> None:
    program = Chain(1).load()
    x, y = at_offset(np.ones(SIZE, np.float32), 16), np.empty(SIZE, np.float32)
    program.run_into([x], [y])
    assert places_of(program) == [address_of(x), address_of(y)]


@pytest.fixture
def reads_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each kernel say that it wants all of its operands on cache lines."""
    source = planned_calls.Kernels.source

    def aligned(kernels: planned_calls.Kernels, instruction: Instruction) -> KernelSource:
        made = source(kernels, instruction)
        operands = len(made.arguments) - bool(made.symbols)
        return replace(made, aligned=frozenset(range(operands)))

    monkeypatch.setattr(planned_calls.Kernels, "source", aligned)
    return iter(())


def open_sum() -> Function:
    """Return the sum of two inputs of an open length."""
    length = open_size("n", 33)
    b = glow_nb.Builder("main")
    x, y = (b.input(name, TensorType(ElementKind.FLOAT32, (length,))) for name in "xy")
    b.save(b.emit(ops.Add(x, y)), "z")
    return b.function()


@pytest.mark.usefixtures("reads_lines")
def test_programs_of_open_sizes_copy_to_memory_that_grows() -> None:
    executable = compiled(open_sum())
    program = executable._loaded
    direct = program.direct_run(["x", "y"], ["z"])
    assert direct is not None
    for length in (5, 1000, 33):
        x = at_offset(np.arange(length, dtype=np.float32), 16)
        y = at_offset(np.full(length, 2, np.float32), 0)
        (z,) = executable.run([x, y])
        copied, lying, _ = places_of(program)
        assert copied % ALIGNMENT == 0 != address_of(x) % ALIGNMENT
        assert lying == address_of(y)
        into = np.empty_like(x)
        program.bind([x, y], [into])()
        found = direct({"x": x, "y": y})
        assert found is not None
        for result in (z, into, found["z"]):
            np.testing.assert_array_equal(result, x + 2)
            assert result is into or address_of(result) % ALIGNMENT == 0


@needs_loader
@pytest.mark.usefixtures("reads_lines")
def test_kernels_say_what_they_want_and_saved_networks_keep_it(tmp_path: Path) -> None:
    net = glow_nb.compile(dense_model(), threads=1)
    assert isinstance(net, CompiledNetwork)
    assert isinstance(net.executable, CpuExecutable)
    net.save(tmp_path / "net")
    loaded = glow_nb.load_compiled(tmp_path / "net")
    assert isinstance(loaded, CompiledNetwork)
    assert isinstance(loaded.executable, SavedExecutable)
    x = at_offset(X, 16)
    for one, program in ((net, net.executable._loaded), (loaded, loaded.executable._loaded)):
        layout = program.layout
        assert [b.is_aligned for b in (*layout.inputs, *layout.outputs)] == [True, True]
        assert address_of(one.run({"x": x})["y"]) % ALIGNMENT == 0
        np.testing.assert_array_equal(one.run({"x": x})["y"], net.run({"x": X})["y"])
        assert places_of(program)[0] % ALIGNMENT == 0


def test_a_network_whose_kernels_want_nothing_copies_nothing() -> None:
    net = glow_nb.compile(dense_model(), threads=1)
    assert isinstance(net, CompiledNetwork)
    assert isinstance(net.executable, CpuExecutable)
    assert not any(binding.is_aligned for binding in net.executable.native.inputs)


@pytest.mark.parametrize("size", [1, 3, 4099])
def test_results_begin_on_cache_lines_if_that_is_asked_for(size: int) -> None:
    made = array_maker(np.dtype(np.float32), (size, 2), is_aligned=True)()
    assert TensorType.of(made) == TensorType(ElementKind.FLOAT32, (size, 2))
    assert address_of(made) % ALIGNMENT == 0


def test_arena_constants_and_scratch_of_each_thread_begin_on_cache_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Offsets of single activations and weights are proved elsewhere: check_placement."""
    from glow_nb.codegen import loaded_program

    seen: dict[str, Array] = {}

    def team(*what: Any, **memory: Array) -> Team:
        seen.update(memory)
        return Team(*what, **memory)  # type: ignore[arg-type]

    monkeypatch.setattr(loaded_program, "Team", team)
    chain = Chain(2)
    chain.calls = [
        replace(call, source=replace(call.source, scratch_bytes=100)) for call in chain.calls
    ]
    native = chain.make(threads=2)
    load(native).run([np.ones(SIZE, np.float32)])
    assert native.layout.thread_scratch_bytes == 2 * ALIGNMENT
    for name in ("constants", "arena", "scratch"):
        assert address_of(seen[name]) % ALIGNMENT == 0, name


def test_memory_that_processes_share_begins_on_cache_lines(tmp_path: Path) -> None:
    types = [TensorType(ElementKind.INT8, (size,)) for size in (3, 65, 1)]
    with (tmp_path / "slots").open("w+b") as stream:
        stream.truncate(mmap.PAGESIZE * 4)
        slots = Slots(stream.fileno(), types[:2], types[2:], 3)
    arrays = [array for slot in range(3) for group in slots.arrays(slot) for array in group]
    assert [address_of(array) % ALIGNMENT for array in arrays] == [0] * 9
