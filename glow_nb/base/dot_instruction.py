"""Instructions that multiply groups of neighbours and add the products to sums, one row each.

A *step* of a product takes a group of *k* neighbours of some left rows and of some right columns,
and adds the sums of their products to ``rows x columns`` results. A fused multiply-add takes one
neighbour, one row, and as many columns as a vector has lanes; ``vpdpbusd`` takes four bytes; others
have blocks of several rows. A row here says which elements an instruction multiplies, in groups of
how many, and which processors have it. How it is emitted is a function of the SIMD layer
(:mod:`glow_nb.simd.multiply_adds`). Where the processor lacks it, or there is no such function, the
products of a group are added up one after the other, so that each row works everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.arguments import described
from glow_nb.base.errors import DefinitionError
from glow_nb.base.plan import Plan
from glow_nb.base.schema import Registry
from glow_nb.base.types import ElementKind

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16
BYTES = frozenset({INT8, UINT8})
SHORTS = BYTES | {INT16}

Need = tuple[int, frozenset[str]]
"""Lanes of ``float32`` in a vector, and the features that the instruction then needs: those of LLVM
or those of :attr:`glow_nb.kernels.target.Target.instruction_sets`."""

MATRIX_ROWS, MATRIX_COLUMNS = 16, 16
"""Rows and columns of sums in a register of AMX; also the rows of groups of a right operand."""

ANY_PROCESSOR: tuple[Need, ...] = tuple((lanes, frozenset()) for lanes in (4, 8, 16))
"""The needs of what each processor can do in vectors of each length."""


@dataclass(frozen=True)
class DotInstruction:
    """One kind of step in the products of a register tile.

    Attributes:
        name: The function of generated source that takes steps, ``tile_dot`` or ``tile_dot_...``.
        left: Kinds of left elements; empty for all that have sums.
        right: Kinds of right elements, as they lie in panels; likewise.
        group: Neighbours of a sum that a step multiplies; of a panel, those of a column lie
            together, beside those of the other columns.
        rows: Rows of results of a step, a power of two.
        columns: Columns of results, a power of two; 0 for the lanes of a vector.
        needs: Alternatives of which the processor must have one; none if no processor has it, so
            that only a plan of the user's takes it.
        widened: The kind that shorter elements are multiplied as: left ones are copied to scratch
            as it, right ones are converted when they are loaded. None if all are as they lie.
        temporaries: Registers that a step needs beside sums and operands.
        reads: Neighbouring left elements that are read at once, if more than *group*: those of the
            pairs of :mod:`glow_nb.kernels.operators.pairings`, in which weights then lie.
        is_in_memory: Right elements are operands in memory: of all operands, sums alone take
            registers beside the temporary ones.
        is_matrix: Sums, and the operands, are in registers for whole matrices (AMX): blocks of up
            to 16 rows x 16 columns, of which a step multiplies up to 16 groups. A step of the
            kernel is one group all the same.
        vectors: The row that multiplies the same panels by vectors, for runs of few rows.
    """

    name: str
    left: frozenset[ElementKind] = frozenset()
    right: frozenset[ElementKind] = frozenset()
    group: int = 1
    rows: int = 1
    columns: int = 0
    needs: tuple[Need, ...] = ()
    widened: ElementKind | None = None
    temporaries: int = 0
    reads: int = 0
    is_in_memory: bool = False
    is_matrix: bool = False
    vectors: str = ""

    def __post_init__(self) -> None:
        self._require(re.fullmatch("tile_dot(_[a-z0-9_]+)?", self.name) is not None, "its name")
        self._require(self.group > 0, "group", "a positive number")
        for name in ("rows", "columns"):
            size = getattr(self, name)
            is_power = size & (size - 1) == 0 and size >= 0
            self._require(is_power and (size > 0 or name == "columns"), name, "a power of two")
        has_kinds = bool(self.left and self.right)
        self._require(
            has_kinds or (self.group, self.rows, self.columns) == (1, 1, 0),
            "left",
            "the kinds that groups and blocks are made of",
        )

    def _require(self, condition: bool, field: str, wanted: str = "") -> None:
        if not condition:
            wanted = wanted or "'tile_dot_' and small letters, digits and underscores"
            found = self.name if field == "its name" else getattr(self, field)
            raise DefinitionError(
                f"dot instruction {self.name!r:.60}: {field} is {found!r:.60}; give {wanted}"
            )

    @property
    def width(self) -> int:
        """Neighbouring left elements that are read at once."""
        return self.reads or self.group

    @property
    def is_paired(self) -> bool:
        """Return whether weights lie in pairs that do not saturate, in an order of each panel."""
        return self.reads > 0

    @property
    def is_dense(self) -> bool:
        """Return whether panels may end within a vector, of whose weights no more are read."""
        return self.group > 1 and not self.is_paired

    @property
    def is_block(self) -> bool:
        """Return whether the results of a step are no vector of a row, but a block."""
        return (self.rows > 1 or self.columns > 0) and not self.is_matrix

    @property
    def is_float(self) -> bool:
        """Return whether it multiplies floats.

        Zeros that fill up a group would meet numbers that may be infinite: there are whole groups
        of floats alone.
        """
        return any(kind.is_float for kind in self.left)

    @property
    def streams(self) -> str:
        """The function that takes steps in several places of the weights at a time."""
        return self.name.replace("dot", "streams", 1)

    @property
    def taps(self) -> str:
        """The function whose lanes are channels by themselves."""
        return self.name.replace("dot", "taps", 1)

    def multiplies(self, left: ElementKind, right: ElementKind) -> bool:
        """Return whether these kinds of elements can be multiplied."""
        return (not self.left or left in self.left) and (not self.right or right in self.right)

    def staged_kind(self, left: ElementKind) -> ElementKind:
        """Return the kind that left elements are read in, which those of *left* are copied to."""
        return left if self.widened is None or left.bits == self.widened.bits else self.widened

    def fits(self, run: int) -> bool:
        """Return whether *run* neighbours can be multiplied; the last group may be filled up.

        What kernels of matrix registers fill up are zeros on both sides.
        """
        return self.is_matrix or not (self.is_float and self.group > 1 and run % self.group)

    def steps(self, rows: int, vectors: int, lanes: int) -> int:
        """Return the steps that one group of neighbours takes in a tile of this number of
        vectors.
        """
        columns = self.columns or lanes
        return -(-rows // self.rows) * -(-vectors * lanes // columns)

    def is_there(self, lanes: int, features: frozenset[str]) -> bool:
        """Return whether a processor with these *features* has it for vectors of *lanes*."""
        return any(lanes == count and needed <= features for count, needed in self.needs)


MATRIX_PARTS = {1: 3, 2: 2, 3: 1, 4: 1}
"""The most matrix registers of sums below each other, by the number of those side by side.

Eight registers hold the sums, the left rows and the right panels of a step: 2 x 2 registers of sums
take two and two, 1 x 3 one and three, 1 x 4 one and two that take turns, 3 x 1 three and one.
"""


def matrix_rows(columns: int) -> int:
    """Return the most rows of a tile of matrix registers of *columns* columns."""
    return MATRIX_ROWS * MATRIX_PARTS[-(-columns // MATRIX_COLUMNS)]


def groups_at_once(groups: int) -> int:
    """Return how many of *groups* groups of a row an instruction of matrix registers multiplies.

    All steps take as many: 18 groups are two times nine.
    """
    return next(number for number in range(MATRIX_ROWS, 0, -1) if groups % number == 0)


DOTS: Registry[str, DotInstruction] = Registry("dot instruction")
"""All rows by name; of those that suit, the last one is the fastest."""


def _row(name: str, *needs: Need, **fields: Any) -> DotInstruction:
    return DOTS.add(name, DotInstruction(name, needs=needs, **fields))


def _with(lanes: int, *features: str) -> Need:
    return lanes, frozenset(features)


SINGLE = _row("tile_dot", *ANY_PROCESSOR)
"""Fused multiply-adds, or a multiplication and an addition of integers, of any kind."""

PAIRS = _row(
    "tile_dot_pairs",
    left=SHORTS | {ElementKind.UINT16},
    right=SHORTS | {ElementKind.UINT16},
    group=2,
    widened=INT16,
)
FOURS = _row("tile_dot_fours", left=BYTES, right=BYTES, group=4)
"""Groups of all kinds that are long as a sum, which no processor has an instruction for."""

_row(
    "tile_dot_vpmaddwd",
    _with(4, "sse2"),
    _with(8, "avx2"),
    _with(16, "avx512bw"),
    left=SHORTS,
    right=SHORTS,
    group=2,
    widened=INT16,
    temporaries=1,
)
_VNNI = (
    *(_with(lanes, "avx", "avxvnni") for lanes in (4, 8)),
    *(_with(lanes, "avx", "avx512vnni", "avx512vl") for lanes in (4, 8)),
    _with(16, "avx", "avx512vnni"),
)
_row("tile_dot_vpdpwssd", *_VNNI, left=SHORTS, right=SHORTS, group=2, widened=INT16)
PAIRED_BYTES = _row(
    "tile_dot_paired",
    *(_with(lanes, f"pair_bytes_{4 * lanes}") for lanes in (4, 8, 16)),
    left=frozenset({UINT8}),
    right=frozenset({INT8}),
    group=4,
    temporaries=4,
    reads=16,
    is_in_memory=True,
)
"""Unsigned bytes and pairs of signed ones that do not saturate."""

_row("tile_dot_vpdpbusd", *_VNNI, left=frozenset({UINT8}), right=frozenset({INT8}), group=4)

_BFLOAT16 = frozenset({ElementKind.BFLOAT16})
BFLOAT16_PAIRS = _row(
    "tile_dot_vdpbf16ps",
    *(_with(lanes, "avx512bf16", "avx512vl") for lanes in (4, 8)),
    _with(16, "avx512bf16"),
    left=_BFLOAT16,
    right=_BFLOAT16,
    group=2,
)

MATRIX_REGISTERS = "matrix_registers"
"""The instruction set that AMX's tiles of bytes and of bfloat16 are, and the right to use them."""


def _matrix_row(name: str, left: ElementKind, right: ElementKind, vectors: str) -> None:
    _row(
        f"tile_dot_{name}",
        *(_with(lanes, MATRIX_REGISTERS) for lanes in (4, 8, 16)),
        left=frozenset({left}),
        right=frozenset({right}),
        group=CACHE_LINE_BYTES // (MATRIX_ROWS * left.size_bytes),
        rows=MATRIX_ROWS,
        columns=MATRIX_COLUMNS,
        is_matrix=True,
        vectors=vectors,
    )


_matrix_row("tdpbf16ps", ElementKind.BFLOAT16, ElementKind.BFLOAT16, "tile_dot_vdpbf16ps")
_matrix_row("tdpbusd", UINT8, INT8, "tile_dot_vpdpbusd")
_matrix_row("tdpbssd", INT8, INT8, "tile_dot_fours")
_matrix_row("tdpbsud", INT8, UINT8, "tile_dot_fours")
_matrix_row("tdpbuud", UINT8, UINT8, "tile_dot_fours")

_OWN = frozenset(DOTS) | {"tile_dot_codes"}
"""The functions of this package."""


def register_dot(dot: DotInstruction) -> DotInstruction:
    """Add a row, which is taken before all others where it suits, and return it.

    Kernels that call it are compiled in this process, and not kept on disk.

    Raises:
        DefinitionError: It is no row, or this package has one of its name.
    """
    if not isinstance(dot, DotInstruction):
        raise DefinitionError(f"{described(dot)}: give a DotInstruction")
    if dot.name in _OWN:
        raise DefinitionError(f"dot instruction {dot.name!r}: glow_nb has it; choose another name")
    DOTS.pop(dot.name, None)
    return DOTS.add(dot.name, dot)


def dots_from_outside() -> list[DotInstruction]:
    """Return the rows that :func:`register_dot` added."""
    return [dot for name, dot in DOTS.items() if name not in _OWN]


def calls_dot_from_outside(text: str) -> bool:
    """Return whether the source of a kernel calls what :func:`register_dot` added."""
    rows = dots_from_outside()
    return any(f"{name}(" in text for row in rows for name in (row.name, row.streams, row.taps))


def uses_matrix_registers(text: str) -> bool:
    """Return whether the source of a kernel multiplies in matrix registers.

    Where the processor has none, the same source becomes code that does without.
    """
    names = "|".join(name for name, dot in DOTS.items() if dot.is_matrix)
    return re.search(rf"\b({names})\(", text) is not None


def dot_named_by(plan: Plan | None) -> DotInstruction:
    """Return the row that *plan* names, by default that of single products.

    Raises:
        UnsupportedError: There is none of that name.
    """
    if plan is None or not plan.has("dot"):
        return SINGLE
    name = plan.word("dot")
    if name not in DOTS:
        raise plan.unfit(f"no dot instruction is called {name!r:.40}")
    return DOTS[name]
