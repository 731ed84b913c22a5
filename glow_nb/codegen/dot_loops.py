"""Loops of one dot instruction each, in registers alone: what the machine multiplies at best.

They are LLVM text with the loop as assembly, so that nothing but the instruction is measured. A
loop has the symbol and the parameters of the kernel of multiply-adds that is measured beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import llvmlite.binding as llvm

from glow_nb.base.dot_instruction import DOTS, MATRIX_COLUMNS, MATRIX_ROWS, DotInstruction
from glow_nb.codegen.target_machine import target_machine
from glow_nb.kernels.products.dot_choice import has_dot
from glow_nb.kernels.target import Target

_CHAINS = 12
"""Independent sums in vectors: more than latency times units of any processor."""

_TILE_CHAINS = 6
"""Independent sums in tiles, beside two operands: 96 cycles, where the latency is 52."""

_TILE_SUMS = MATRIX_ROWS * MATRIX_COLUMNS
_TILE_SIZES = bytes([1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8])
"""The configuration of eight tiles of 16 rows of 64 bytes."""

_LOOP = """
@sizes = private constant [64 x i8] c"$SIZES", align 64

define void @$SYMBOL(ptr %block, ptr %numbers, ptr %scratch, i64 %thread, i64 %threads) {
  %repetitions = load i64, ptr %numbers
  %place = getelementptr i64, ptr %numbers, i64 1
  %steps = load i64, ptr %place
  %count = mul i64 %repetitions, %steps
  %left = call i64 asm sideeffect "$TEXT", "=&r,0,r,r,r,$CLOBBERED"(
    i64 %count, ptr %block, ptr @sizes, i64 0)
  ret void
}
"""


@dataclass(frozen=True)
class DotLoop:
    """A dot instruction that is measured.

    Attributes:
        row: The dot instruction, and the processors that have it.
    """

    row: DotInstruction

    @property
    def dot(self) -> str:
        """The name of the row, as plans have it."""
        return self.row.name

    @property
    def instruction(self) -> str:
        """What the assembler calls it."""
        return self.row.name.removeprefix("tile_dot_")

    @property
    def products(self) -> int:
        """Multiplications and additions for each sum."""
        return self.row.group * (MATRIX_ROWS if self.row.is_matrix else 1)

    def is_there(self, target: Target) -> bool:
        """Return whether *target* has it for its vectors."""
        return has_dot(target, self.row)

    def operations(self, target: Target) -> int:
        """Return the operations of a step of the loop; a multiplication and an addition are two."""
        sums = _TILE_CHAINS * _TILE_SUMS if self.row.is_matrix else _CHAINS * target.lanes
        return 2 * self.products * sums

    def object_code(self, symbol: str, target: Target) -> bytes:
        """Return the object that defines the loop as *symbol*."""
        name, registers, lines = "xmm", 16, self._vector_lines(target)
        if self.row.is_matrix:
            name, registers, lines = "tmm", 8, self._tile_lines()
        clobbered = [f"~{{{name}{number}}}" for number in range(registers)]
        text = (
            _LOOP.replace("$SYMBOL", symbol)
            .replace("$SIZES", "".join(f"\\{byte:02X}" for byte in _TILE_SIZES))
            .replace("$CLOBBERED", ",".join([*clobbered, "~{memory}", "~{flags}"]))
            .replace("$TEXT", "\\0A".join(lines))
        )
        machine = target_machine(target)
        module = llvm.parse_assembly(text)
        module.triple, module.data_layout = target.triple, str(machine.target_data)
        module.verify()
        payload: bytes = machine.emit_object(module)
        return payload

    def _vector_lines(self, target: Target) -> Iterator[str]:
        letter = {4: "x", 8: "y", 16: "z"}[target.lanes]
        left, right = f"%{letter}mm14", f"%{letter}mm15"
        for register in (left, right):
            yield f"vmovups ($2), {register}"
        for chain in range(_CHAINS):
            yield f"vxorps %xmm{chain}, %xmm{chain}, %xmm{chain}"
        yield "1:"
        for chain in range(_CHAINS):
            yield f"{self.instruction} {left}, {right}, %{letter}mm{chain}"
        yield from ("decq $0", "jnz 1b", "vzeroupper")

    def _tile_lines(self) -> Iterator[str]:
        yield "ldtilecfg ($3)"
        for chain in range(_TILE_CHAINS):
            yield f"tilezero %tmm{chain}"
        for operand in (6, 7):
            yield f"tileloadd ($2,$4,1), %tmm{operand}"  # one line, for each row
        yield "1:"
        for chain in range(_TILE_CHAINS):
            yield f"{self.instruction} %tmm6, %tmm7, %tmm{chain}"
        yield from ("decq $0", "jnz 1b", "tilerelease")


DOT_LOOPS = tuple(
    DotLoop(DOTS[f"tile_dot_{name}"])
    for name in ("vpdpwssd", "vpdpbusd", "vdpbf16ps", "tdpbf16ps", "tdpbusd")
)
"""What is measured, where the processor has it."""
