"""The memory of a run for some sizes, of a program whose sizes are open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from glow_nb.base.alignment import aligned_bytes
from glow_nb.base.memory_limit import require_run_memory
from glow_nb.base.size import at
from glow_nb.base.types import Array, TensorType
from glow_nb.codegen.loaded_program import DirectRun
from glow_nb.codegen.result_memory import array_maker
from glow_nb.codegen.run_layout import RunLayout


class SizeLayout:
    """The memory of a run of some sizes.

    Attributes:
        sizes: The sizes by name.
        shapes: The shapes of the inputs.
        words: The sizes as kernels read them, followed by the scratch of a thread.
        arena_bytes: Memory of the activations.
        scratch_bytes: Working memory of one thread.
        in_arena: Window and offset of what lies in the arena.
        in_constants: The same of what lies in the program's own block of constants.
        in_bindings: Window, binding and offset of what lies in something that is bound.
        runs: The number of runs.
        instead: The program that runs these sizes instead, once it is compiled.
    """

    instead: DirectRun | None = None

    @cached_property
    def types(self) -> list[TensorType]:
        """The type of each output."""
        return [binding.type.at(self.sizes) for binding in self._outputs]

    @cached_property
    def makers(self) -> list[Callable[[], Array]]:
        """What makes an array for each output; MemoryLimitError if there is no room for them."""
        require_run_memory("run", {"outputs": sum(type.size_bytes for type in self.types)})
        return [
            array_maker(type.kind.dtype, type.shape, is_aligned=binding.is_aligned)
            for type, binding in zip(self.types, self._outputs, strict=True)
        ]

    def __init__(
        self, layout: RunLayout, sizes: Mapping[str, int], shapes: tuple[tuple[int, ...], ...]
    ) -> None:
        """Lay out a run of the program of *layout* for *sizes*, from the *shapes* of inputs.

        Raises:
            OptionError: The program is not right for these sizes.
        """
        opened = layout.open
        assert opened is not None
        opened.check(sizes)
        self.sizes, self.shapes, self.runs = sizes, shapes, 0
        offsets, self.arena_bytes = opened.placement.at(sizes)
        scratch = max(opened.scratch_at(sizes), layout.thread_scratch_bytes)
        self.scratch_bytes = aligned_bytes(scratch)
        words = [sizes[symbol.name] for symbol in opened.words]
        self.words = np.array([*words, self.scratch_bytes], np.int64)
        self._outputs = layout.outputs
        self.in_arena: list[tuple[int, int]] = []
        self.in_constants: list[tuple[int, int]] = []
        self.in_bindings: list[tuple[int, int, int]] = []
        for number, window in enumerate(opened.windows):
            offset = at(window.offset_bytes, sizes)
            match window.space:
                case "activation":
                    self.in_arena.append((number, offsets[window.number] + offset))
                case "constants":
                    self.in_constants.append((number, offset))
                case "binding":
                    self.in_bindings.append((number, window.number, offset))
