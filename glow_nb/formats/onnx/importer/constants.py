"""Constants that rules make, within a budget of memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from glow_nb.base.errors import ModelError
from glow_nb.base.memory_limit import require_memory
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.formats.onnx.importer.import_context import ImportContext
from glow_nb.formats.onnx.importer.tensors import Numbers
from glow_nb.formats.onnx.importer.trace import Trace
from glow_nb.formats.onnx.importer.weight_files import StoredNumbers
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant

MAX_CONSTANT_BYTES = 1 << 31
"""No constant made at import may be larger; protobuf allows no larger model either."""

MAX_GROWTH_BYTES = 1 << 20
"""A node that makes more out of small constants (Expand, Tile) stays a node."""


class Constants(ImportContext):
    """Makes constants of numbers, named after the tensor that is being computed.

    Attributes:
        builder: Collects the nodes.
        stem: The tensor being computed; what a rule emits for it is named after it.
        place: The name of the imported node in errors.
        trace: The nodes that the rule emits, if they are recorded.
    """

    def __init__(self, builder: Builder) -> None:
        """Make constants with *builder*."""
        self.builder = builder
        self.stem = "value"
        self.place = ""
        self.trace: Trace | None = None
        self._bytes_left = 4 * MAX_CONSTANT_BYTES

    def spend(self, size_bytes: int) -> None:
        """Count constants of *size_bytes* more.

        Raises:
            ModelError: They are absurdly large.
            MemoryLimitError: The process may not have so much memory.
        """
        self._bytes_left -= size_bytes
        if size_bytes > MAX_CONSTANT_BYTES or self._bytes_left < 0:
            raise ModelError(
                f"{self.place}: its value is a constant of {size_bytes} bytes; constants made at "
                f"import may have {MAX_CONSTANT_BYTES} bytes each and four times that in all"
            )
        if size_bytes > MAX_GROWTH_BYTES:  # small ones do not fill the memory
            spent = 4 * MAX_CONSTANT_BYTES - self._bytes_left
            needs = {"constants made at import": spent}
            require_memory(self.place, needs, [(self.stem, size_bytes)])

    @override
    def constant(self, array: Array, name: str | None = None) -> Constant:
        name = name or f"{self.stem}_constant"
        return self.builder.constant(name, np.asarray(array), is_weight=False)

    def of_numbers(self, numbers: Numbers, name: str) -> Constant:
        """Return a constant called *name* of *numbers* of the model, which may be in a file."""
        if isinstance(numbers, StoredNumbers):
            return Constant(self.builder.unique_name(name), numbers.type, numbers, is_weight=False)
        numbers.flags.writeable = False  # not referenced elsewhere: no copy is needed
        return self.constant(numbers, name)

    def rounded(self, array: Array, kind: ElementKind) -> Constant:
        """Return a constant of *kind* that holds *array*, rounded if need be."""
        return self.filled(TensorType(kind, array.shape), array, array.shape)

    def filled(
        self, like: TensorType, number: float | Array, shape: Sequence[int] = ()
    ) -> Constant:
        """Return a constant of *like*'s kind and the given *shape*, full of *number*."""
        with np.errstate(all="ignore"):
            array = np.asarray(number).astype(like.kind.dtype)
        constant = self.constant(np.broadcast_to(array, tuple(shape)))
        if self.trace is not None and not np.array_equal(array, number, equal_nan=True):
            self.trace.note_rounded(constant)
        return constant

    @override
    def number(self, like: TensorType, number: float, /) -> Constant:
        return self.filled(like, number, (1,) * like.rank)
