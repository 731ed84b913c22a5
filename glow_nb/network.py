"""A compiled network: run it, and look at what was made of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from typing_extensions import override

from glow_nb.arguments import as_array, as_path
from glow_nb.counted import cut, visible_types
from glow_nb.errors import FeedError, OptionError, UnsupportedError
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Buffer, Program
from glow_nb.memory_limit import out_of_memory
from glow_nb.schema import closest
from glow_nb.types import Array, TensorType

if TYPE_CHECKING:
    from glow_nb.backends.backend import Executable, KernelList
    from glow_nb.profile import Profile

Feeds = Mapping[str, Array] | Array


@dataclass(frozen=True)
class MemoryReport:
    """Bytes that a compiled network needs, known before the first run.

    Attributes:
        arena_bytes: The block that holds all activations.
        lower_bound_bytes: The largest sum of activations live at one time.
        unshared_bytes: What the activations would take if none shared memory.
        in_place_bytes: By how much the lower bound is smaller because results are written over
            operands that end.
        constant_bytes: Weights, packed as the kernels want them.
        scratch_bytes: Working memory of the kernels, for all threads.
        program: The allocated program that the bytes are of; what :meth:`plot` draws.
    """

    arena_bytes: int
    lower_bound_bytes: int
    unshared_bytes: int
    in_place_bytes: int
    constant_bytes: int
    scratch_bytes: int
    program: Program = field(repr=False, compare=False)

    def plot(self, path: str | os.PathLike[str], *, title: str = "") -> None:
        """Draw the arena to the PNG file *path*: time to the right, addresses upwards.

        Raises:
            OptionError: matplotlib is not installed, or no activation lies in memory.
            GlowError: The file cannot be written.
        """
        try:
            from glow_nb.plots.memory_map import draw_memory_map
        except ModuleNotFoundError as error:
            raise OptionError(
                f"the memory map needs {error.name}, which is not installed; "
                "pip install 'glow_nb[plot]'"
            ) from error
        draw_memory_map(self.program, as_path(path), title)

    @override
    def __str__(self) -> str:
        ratio = self.arena_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0
        saved = f"{_mebibytes(self.in_place_bytes)} less in place, " if self.in_place_bytes else ""
        return (
            f"arena {_mebibytes(self.arena_bytes)} ({ratio:.3f} of its lower bound, {saved}"
            f"{_mebibytes(self.unshared_bytes)} unshared), "
            f"constants {_mebibytes(self.constant_bytes)}, "
            f"scratch {_mebibytes(self.scratch_bytes)}"
        )


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.2f} MiB"


class CompiledNetwork:
    """A network that is ready to run, as :func:`glow_nb.compile` returns it.

    Example::

        net = glow_nb.compile("resnet50.onnx", threads=2)
        outputs = net.run({"data": images})     # arrays by output name, in the model's order

    ``run`` may be called from many threads at once.
    """

    def __init__(
        self, program: Program, executable: Executable, function: Function | None, threads: int
    ) -> None:
        """Wrap what the compiler made; users call :func:`glow_nb.compile` instead."""
        self.program = program
        self.function = function
        self.threads = threads
        self._executable = executable
        self._output_names = tuple(buffer.name for buffer in program.outputs)
        self._counted = {b.name: b.counted for b in program.outputs if b.counted}

    @property
    def inputs(self) -> dict[str, TensorType]:
        """Name and type of each input, in order."""
        return {buffer.name: buffer.type for buffer in self.program.inputs}

    @property
    def outputs(self) -> dict[str, TensorType]:
        """Name and type of each output, in order; ``int64<<=12 x 3>`` has at most 12 rows."""
        counted = {b.name: b.counted for b in self.program.outputs if b.counted}
        return visible_types({b.name: b.type for b in self.program.outputs}, counted)

    @property
    def memory(self) -> MemoryReport:
        """What the network needs in memory."""
        from glow_nb.llir.allocate import ALIGNMENT
        from glow_nb.llir.in_place import peak_of, tenancies

        arena, values = self.program.arena, tenancies(self.program)
        apart, bound = peak_of(values, alignment=ALIGNMENT), arena.lower_bound_bytes if arena else 0
        return MemoryReport(
            arena_bytes=arena.size_bytes if arena else 0,
            lower_bound_bytes=bound,
            unshared_bytes=sum(value.size_bytes for value in values),
            in_place_bytes=max(0, apart - bound),
            constant_bytes=self._executable.constant_bytes,
            scratch_bytes=self._executable.scratch_bytes,
            program=self.program,
        )

    @property
    def kernels(self) -> KernelList:
        """What was generated for each instruction, and of which nodes, in execution order."""
        from glow_nb.backends.backend import KernelList

        return KernelList(self._executable.kernels)

    @property
    def source(self) -> str:
        """The generated source: the entry and every kernel once."""
        return self._executable.source

    def run(self, inputs: Feeds) -> dict[str, Array]:
        """Run the network.

        Args:
            inputs: One array for each input by name, or a bare array if there is one input. Shape
                and dtype must be those of :attr:`inputs`. Contiguous arrays are not copied.

        Returns:
            New arrays by output name, in the model's order.

        Raises:
            FeedError: An input is missing, unknown, or of another shape or dtype.
            MemoryLimitError: The system gives no memory for the run.
        """
        arrays = check_feeds(self.program.inputs, inputs)
        try:
            results = self._executable.run(arrays)
        except MemoryError as error:
            raise out_of_memory(f"network {self.program.name!r}", error) from error
        outputs = dict(zip(self._output_names, results, strict=True))
        return cut(outputs, self._counted) if self._counted else outputs

    def __call__(self, inputs: Feeds) -> dict[str, Array]:
        """Run the network, as :meth:`run` does."""
        return self.run(inputs)

    @override
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be copied or pickled: machine code and threads belong to this process."""
        raise UnsupportedError(
            "a compiled network cannot be copied or pickled, it is machine code in this process; "
            "share it (run may be called from many threads), compile the model again where it is "
            "needed (kernels come from the cache), or keep its program as text: "
            "glow_nb.save_text(net.program, 'net.glow'), then glow_nb.compile('net.glow')"
        )

    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        """Run the network some times and return the time of each kernel.

        The runs use an entry of their own that takes the time before and after each kernel on each
        thread; ``run`` is as fast afterwards as before.

        Args:
            inputs: As :meth:`run` takes them.
            runs: How often to run, after one run that is not counted.
            limits: Compare with what the machine can do at best; measured in under a second the
                first time, and kept in the cache folder.

        Raises:
            FeedError: As :meth:`run`.
            OptionError: *runs* is not a positive whole number, or *limits* no bool.
            UnsupportedError: The backend does not take the time of its kernels.
        """
        from glow_nb.codegen.measure_limits import limits_that_were_beaten, machine_limits
        from glow_nb.profile import profile_executable

        arrays = check_feeds(self.program.inputs, inputs)
        if not isinstance(limits, bool):
            raise OptionError(f"limits={limits!r:.80}: give True or False")
        known = machine_limits(self.threads) if limits else None
        profile = profile_executable(
            self.program.name, self._executable, arrays, runs=runs, limits=known
        )
        if known is None or not profile.beats_limits:
            return profile
        return profile.with_limits(limits_that_were_beaten(self.threads))

    @override
    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {type}" for name, type in self.inputs.items())
        outputs = ", ".join(f"{name}: {type}" for name, type in self.outputs.items())
        return f"<CompiledNetwork {self.program.name} ({inputs}) -> ({outputs}), {self.memory}>"


def check_feeds(inputs: tuple[Buffer, ...], feeds: Feeds) -> list[Array]:
    """Return one contiguous array for each of *inputs*, or raise FeedError."""
    named = name_feeds([buffer.name for buffer in inputs], feeds)
    return [_check_feed(buffer, named[buffer.name]) for buffer in inputs]


def name_feeds(names: list[str], feeds: Feeds) -> Mapping[str, Array]:
    """Return *feeds* as a mapping that has exactly *names*, or raise FeedError."""
    if not isinstance(feeds, (dict, Mapping)):  # a dict is recognized faster
        if len(names) != 1:
            raise FeedError(
                f"the network has {len(names)} inputs; feed a dict with the names {names}"
            )
        return {names[0]: feeds}
    for name in feeds:
        if name not in names:
            raise FeedError(
                f"unknown input {name!r}{closest(str(name), names)}; the inputs are {names}"
            )
    missing = [name for name in names if name not in feeds]
    if missing:
        raise FeedError(f"input(s) {missing} are not fed; the network has {names}")
    return feeds


def _check_feed(buffer: Buffer, value: Array) -> Array:
    wanted, dtype = buffer.type, buffer.type.kind.dtype
    if (
        type(value) is np.ndarray
        and value.dtype == dtype
        and value.shape == wanted.shape
        and value.flags.carray
    ):
        return value
    array = as_array(buffer.name, value)
    if array.dtype.newbyteorder("=") != dtype:
        raise FeedError(
            f"input {buffer.name!r}: dtype is {array.dtype}, the network takes "
            f"{wanted.kind.value}; convert it with .astype({wanted.kind.value!r})"
        )
    if array.shape != wanted.shape:
        raise FeedError(
            f"input {buffer.name!r}: shape is {list(array.shape)}, the network takes "
            f"{list(wanted.shape)}; reshape it, or compile for this shape"
        )
    return np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])
