"""Kernel sources: their symbols and their layout."""

import pytest

from glow_nb.base.errors import DefinitionError
from glow_nb.base.types import ElementKind
from glow_nb.kernels.writing.source import KernelSource, SourceWriter

FLOAT32, INT32 = ElementKind.FLOAT32, ElementKind.INT32


def test_writer_indents_blocks_and_every_line_of_a_text() -> None:
    out = SourceWriter()
    with out.block("for i in range(4):"):
        out.line("a = i\nb = a")
        with out.block("if a:"):
            out.line("c = b")
    out.line("d = 0")
    assert out.text == (
        "for i in range(4):\n    a = i\n    b = a\n    if a:\n        c = b\nd = 0\n"
    )


def test_symbol_depends_on_text_and_arguments_only() -> None:
    source = KernelSource("convolution", "text", (FLOAT32,))
    assert source.symbol.startswith("glow_convolution_")
    assert source.symbol == KernelSource("convolution", "text", (FLOAT32,), 64).symbol
    assert source.symbol != KernelSource("convolution", "other", (FLOAT32,)).symbol
    assert source.symbol != KernelSource("convolution", "text", (INT32,)).symbol


@pytest.mark.parametrize("family", ["", "_", "a b", "a-b", "1a", "ä", "x;y"])
def test_family_must_be_a_plain_word(family: str) -> None:
    with pytest.raises(DefinitionError, match="kernel family"):
        KernelSource(family, "text", ())
