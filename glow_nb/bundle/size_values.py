"""Sizes that are known when a bundle runs, as LLVM text that computes them.

A size is a polynomial (:mod:`glow_nb.base.size`). It is computed in 64 bits; what does not fit is
noted in ``%over``, and nothing is done with the number then.
"""

from __future__ import annotations

from collections.abc import Mapping

from glow_nb.base.alignment import ALIGNMENT
from glow_nb.base.quotient import Quotient
from glow_nb.base.size import Size, Symbol
from glow_nb.bundle.filled import filled
from glow_nb.codegen.run_layout import LARGEST_RUN_BYTES

_CHECKED = """
define internal i64 @${NAME}.$FUNCTION(ptr %over, i64 %a, i64 %b) {
start:
  %both = call { i64, i1 } @llvm.$OPERATION.with.overflow.i64(i64 %a, i64 %b)
  %found = extractvalue { i64, i1 } %both, 0
  %is_over = extractvalue { i64, i1 } %both, 1
  br i1 %is_over, label %note, label %done
note:
  store i1 true, ptr %over
  ret i64 0
done:
  ret i64 %found
}
declare { i64, i1 } @llvm.$OPERATION.with.overflow.i64(i64, i64)
"""

_ROUNDED = """
define internal i64 @${NAME}.quotient(ptr %over, i64 %a, i64 %b) {
start:
  %is_good = icmp sgt i64 %b, 0
  br i1 %is_good, label %divide, label %note
note:
  store i1 true, ptr %over
  ret i64 0
divide:
  %near = sdiv i64 %a, %b
  %product = mul i64 %near, %b
  %is_above = icmp sgt i64 %product, %a
  %less = sext i1 %is_above to i64
  %found = add i64 %near, %less
  ret i64 %found
}

define internal i64 @${NAME}.bytes(ptr %over, i64 %a) {
start:
  %is_good = icmp ule i64 %a, $LARGEST
  br i1 %is_good, label %round, label %note
note:
  store i1 true, ptr %over
  ret i64 0
round:
  %more = add i64 %a, $REST
  %found = and i64 %more, -$ALIGNMENT
  ret i64 %found
}
"""


def arithmetic_text(name: str) -> str:
    """Return the text of the functions that the lines of the bundle *name* call.

    ``plus`` and ``times`` note what does not fit. ``quotient`` rounds down, and notes a divisor
    that is not positive. ``bytes`` rounds up to the alignment, and notes what is no size of memory.
    """
    checked = (
        filled(_CHECKED, NAME=name, FUNCTION=function, OPERATION=operation)
        for function, operation in (("plus", "sadd"), ("times", "smul"))
    )
    numbers = {"LARGEST": LARGEST_RUN_BYTES, "ALIGNMENT": ALIGNMENT, "REST": ALIGNMENT - 1}
    return "".join(checked) + filled(_ROUNDED, numbers, NAME=name)


class SizeValues:
    """Lines of one function that compute sizes, each once: all of them in one block.

    Attributes:
        lines: The lines so far; ``%over`` is the address of an i1 in their function.
    """

    def __init__(self, name: str, symbols: Mapping[str, str]) -> None:
        """Compute for the bundle *name* from the operands that *symbols* are, by their names."""
        self.lines: list[str] = []
        self._name, self._symbols = name, symbols
        self._known: dict[Size | Quotient, str] = {}
        self._calls: dict[str, str] = {}

    def of(self, size: int) -> str:
        """Return the operand that is *size*."""
        if not isinstance(size, Size):
            return self._number(size)
        if size not in self._known:
            self._known[size] = self._sum(size)
        return self._known[size]

    def call(self, function: str, *operands: str) -> str:
        """Return the operand that a *function* of :func:`arithmetic_text` gives for *operands*."""
        given = ", ".join(("ptr %over", *(f"i64 {operand}" for operand in operands)))
        text = f"call i64 @{self._name}.{function}({given})"
        if text not in self._calls:
            self._calls[text] = self.line(text)
        return self._calls[text]

    def line(self, text: str) -> str:
        """Return the operand that is computed by *text*, the right side of a line."""
        found = f"%z{len(self.lines)}"
        self.lines.append(f"  {found} = {text}")
        return found

    def store(self, operand: str, place: str, word: int) -> None:
        """Write *operand* to a *word* of 8 bytes after the pointer *place*."""
        address = self.line(f"getelementptr i64, ptr {place}, i64 {word}")
        self.lines.append(f"  store i64 {operand}, ptr {address}")

    def _number(self, number: int) -> str:
        if -(1 << 63) <= number < 1 << 63:
            return str(number)
        self.lines.append("  store i1 true, ptr %over")
        return "0"

    def _sum(self, size: Size) -> str:
        found = ""
        for atoms, factor in size.terms.items():
            term = self._number(factor) if factor != 1 or not atoms else ""
            for atom in atoms:
                operand = self._atom(atom)
                term = self.call("times", term, operand) if term else operand
            found = self.call("plus", found, term) if found else term
        return found

    def _atom(self, atom: Symbol | Quotient) -> str:
        if isinstance(atom, Symbol):
            return self._symbols[atom.name]
        if atom not in self._known:
            sides = self.of(atom.numerator), self.of(atom.denominator)
            self._known[atom] = self.call("quotient", *sides)
        return self._known[atom]
