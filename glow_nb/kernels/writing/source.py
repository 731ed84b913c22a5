"""Kernel source text: what a generator returns, and the writer that lays it out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from glow_nb.base.errors import DefinitionError
from glow_nb.base.size import Guard, Symbol
from glow_nb.base.types import ElementKind

INDENT = "    "


@dataclass(frozen=True)
class KernelSource:
    """Python source of one kernel, ready to be compiled on its own.

    ``text`` defines exactly ``def kernel(<pointers>, scratch, thread, threads)``. A call does the
    share of ``thread`` in ``range(threads)``; all shares together write the whole result, in any
    order. Pointers are contiguous row-major tensors, aligned to their element at least.

    Attributes:
        family: Kind of kernel, letters, digits and underscores; part of the symbol.
        text: The Python source; sees the names of the SIMD layer and ``range``, ``min``, ``max``.
        arguments: Element kind of each pointer argument, in order, without ``scratch``.
        scratch_bytes: Size of the private region that each thread passes as ``scratch``, which
            is a ``uint8`` pointer aligned to 64 bytes.
        has_lines: Whether the object has debug information about lines of the text.
        symbols: The open sizes, in the order of the argument ``sizes``, an ``int64`` pointer after
            all others.
        guards: Comparisons of these sizes that hold in every run.
        aligned: The numbers of the pointer arguments that it reads much faster if they begin on a
            cache line: operands from which tiles are loaded.
    """

    family: str
    text: str
    arguments: tuple[ElementKind, ...]
    scratch_bytes: int = 0
    has_lines: bool = False
    symbols: tuple[Symbol, ...] = ()
    guards: tuple[Guard, ...] = ()
    aligned: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not (self.family.isascii() and self.family[:1].isalpha() and self.family.isidentifier()):
            raise DefinitionError(
                f"kernel family {self.family!r}: not letters, digits and underscores; rename it"
            )

    @cached_property
    def symbol(self) -> str:
        """C symbol of the compiled kernel: the family and a hash of the text and the arguments."""
        kinds = ",".join(kind.value for kind in self.arguments)
        digest = hashlib.sha256(f"{kinds}\n{self.text}".encode()).hexdigest()
        return f"glow_{self.family}_{digest[:20]}"

    @property
    def file_name(self) -> str:
        """The name of a file with the text."""
        return f"{self.symbol}.py"

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of the pointer arguments in the text, in order."""
        _, _, rest = self.text.partition("def kernel(")
        names = [name.strip() for name in rest.partition(")")[0].split(",")]
        return tuple(names[: names.index("scratch")])


class SourceWriter:
    """Builds indented source line by line.

    ```python
    out = SourceWriter()
    with out.block("for row in range(4):"):
        out.line("store(dest, row * 8, value)")
    ```
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        """Append *text*, one line or several, with the current indentation."""
        self._lines.extend(INDENT * self._depth + part for part in text.split("\n"))

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Append *header* and indent what is written inside the ``with`` statement."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    @property
    def text(self) -> str:
        """Everything written so far, ending in a newline."""
        return "\n".join(self._lines) + "\n"
