"""In which form the factors of a sum are multiplied: one by one, or in groups of neighbours.

Neighbouring bytes, or pairs of 16 bits, that together are as long as a sum of 32 bits are
multiplied, and their products added to it, by one instruction. So sums of bytes take a quarter or
half of the instructions that sums of ``float32`` take.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.operators.pairings import STEP_INPUTS, WINDOW
from glow_nb.kernels.target import Target

INT8, UINT8, INT16 = ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16
FITS_16_BITS = frozenset({INT8, UINT8, INT16})
"""What fits into 16 bits with a sign."""

SUM_BITS = 32


@dataclass(frozen=True)
class DotForm:
    """A function of the SIMD layer that sums up products in a register tile.

    Attributes:
        name: Its name (:data:`glow_nb.simd.dot.DOTS`, :mod:`glow_nb.simd.paired_dot`).
        factors: Neighbouring factors that it multiplies at once.
        temporaries: Registers that it needs beside sums and operands.
        is_in_memory: Right factors are operands in memory: of all operands, sums alone take
            registers beside the temporary ones.
        reads: Neighbouring left elements that are read at once, if more than *factors*.
    """

    name: str
    factors: int
    temporaries: int = 0
    reads: int = 0
    is_in_memory: bool = False

    @property
    def width(self) -> int:
        """Neighbouring left elements that are read at once."""
        return self.reads or self.factors

    @property
    def is_dense(self) -> bool:
        """Return whether panels may end within a vector, of whose weights no more are read."""
        return self.factors > 1 and not self.is_paired

    @property
    def is_paired(self) -> bool:
        """Return whether weights lie in pairs that do not saturate, in an order of each panel."""
        return self.reads > 0

    def staged_kind(self, left: ElementKind) -> ElementKind:
        """Return the kind that left elements are read in, which those of *left* are copied to."""
        is_wide = left not in FITS_16_BITS or left.bits * self.factors == SUM_BITS
        return left if self.factors == 1 or is_wide else INT16

    def multiplies(self, left: ElementKind, right: ElementKind) -> bool:
        """Return whether groups of these kinds of elements can be multiplied."""
        if self.factors == 1:
            return True
        wanted = SUM_BITS // self.factors
        return self.staged_kind(left).bits == wanted and right.bits <= wanted


SINGLE = DotForm("tile_dot", 1)

PAIRED_BYTES = DotForm(
    "tile_dot_paired",
    STEP_INPUTS,
    temporaries=4,
    reads=WINDOW,
    is_in_memory=True,
)
"""Unsigned bytes and pairs of signed ones that do not saturate."""


VPDPBUSD = DotForm("tile_dot_vpdpbusd", 4)
VPDPWSSD = DotForm("tile_dot_vpdpwssd", 2)
VPMADDWD = DotForm("tile_dot_vpmaddwd", 2, temporaries=1)
FOURS, PAIRS = DotForm("tile_dot_fours", 4), DotForm("tile_dot_pairs", 2)
"""Groups that the processor has no instruction for: they are multiplied one after the other."""

DOT_FORMS = {
    form.name: form for form in (SINGLE, PAIRED_BYTES, VPDPBUSD, VPDPWSSD, VPMADDWD, FOURS, PAIRS)
}
"""All forms by name."""


def dot_form_of(plan: Plan) -> DotForm:
    """Return the form that *plan* names; UnsupportedError if there is none of that name."""
    name = plan.word("dot")
    if name not in DOT_FORMS:
        raise plan.unfit(f"no dot instruction is called {name!r:.40}")
    return DOT_FORMS[name]


def checked_form(plan: Plan, wanted: DotForm) -> DotForm:
    """Return the form that *plan* names, which multiplies the same groups as *wanted*.

    Args:
        plan: The plan.
        wanted: How the target multiplies such groups best. Another form is taken if it multiplies
            the factors one after the other, as any processor can.

    Raises:
        UnsupportedError: The groups are others, or the target may lack the instruction.
    """
    form = dot_form_of(plan)
    emulated = {1: SINGLE, 2: PAIRS, 4: FOURS}
    if form not in (wanted, emulated.get(wanted.factors)):
        raise plan.unfit(f"here {wanted.name!r} multiplies, and not {form.name!r}")
    return form


def best_factors(left: ElementKind, right: ElementKind, target: Target) -> int:
    """Return how many neighbouring factors of such kinds *target* multiplies at once."""
    if (left, right) == (UINT8, INT8) and _has_vnni(target):
        return 4
    return 2 if {left, right} <= FITS_16_BITS and _has_pairs(target) else 1


def dot_form(left: ElementKind, right: ElementKind, factors: int, target: Target) -> DotForm:
    """Return how *target* multiplies groups of so many *factors*.

    Where it has no instruction for that, they are multiplied one after the other.
    """
    if factors == 1:
        return SINGLE
    if factors == 4:
        is_known = (left, right) == (UINT8, INT8) and _has_vnni(target)
        return VPDPBUSD if is_known else FOURS
    if not ({left, right} <= FITS_16_BITS and _has_pairs(target)):
        return PAIRS
    if _has_vnni(target):
        return VPDPWSSD
    return VPMADDWD


def pays_to_pair(target: Target) -> bool:
    """Return whether *target* multiplies pairs of bytes that do not saturate faster than others.

    See :mod:`glow_nb.kernels.operators.pairings`. VNNI has an instruction that adds the products
    of bytes in 32 bits.
    """
    bytes = target.lanes * ElementKind.FLOAT32.size_bytes
    return f"pair_bytes_{bytes}" in target.instruction_sets and not _has_vnni(target)


def _has_vnni(target: Target) -> bool:
    """Return whether VNNI multiplies vectors of the target's lanes."""
    features = target.enabled_features
    if target.lanes > target.native_lanes or "avx" not in features:
        return False
    if target.lanes == 16:
        return "avx512vnni" in features
    return "avxvnni" in features or {"avx512vnni", "avx512vl"} <= features


def _has_pairs(target: Target) -> bool:
    """Return whether ``vpmaddwd`` multiplies vectors of the target's lanes."""
    needed = {4: "sse2", 8: "avx2", 16: "avx512bw"}[target.lanes]
    return target.lanes <= target.native_lanes and needed in target.enabled_features
