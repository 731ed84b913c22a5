"""Errors about the text of a kernel speak of its line, and of the vocabulary."""

from __future__ import annotations

import pytest

from glow_nb.base.errors import CompileError
from glow_nb.base.types import ElementKind
from glow_nb.codegen import compile
from glow_nb.codegen.compile import compile_kernel
from glow_nb.codegen.kernel_errors import described
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource

pytestmark = pytest.mark.jit


def kernel(line: str) -> KernelSource:
    text = f"def kernel(dest, scratch, thread, threads):\n    x = get(dest, 0)\n    {line}\n"
    return KernelSource("sample", text, (ElementKind.FLOAT32,))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("put(dest, 1, max(x, x))", r"max does not take \(float32, float32\); docs/reference"),
        ("put(dest, 1, maxx(x, x))", "'maxx' is neither a variable nor .* did you mean 'max'"),
        ("store(dest, 1, x)", r"store does not take \("),
    ],
)
def test_misuse_of_a_word(line: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as raised:
        compile_kernel(kernel(line), Target.host())
    told = str(raised.value)
    assert f"line 3, `{line}`" in told
    assert "\x1b" not in told
    assert told.endswith(f"   3 |     {line}")


def test_what_numba_says_otherwise_is_told_without_colours() -> None:
    told = described(kernel("pass"), ValueError("\x1b[1mnot so\x1b[0m"), {})
    assert "this is a defect of its generator\nValueError: not so\n" in told


def test_a_function_of_a_user_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "functions_from_outside", lambda: {"tile_dot_mine": abs})
    with pytest.raises(CompileError, match="did you mean 'tile_dot_mine'"):
        compile_kernel(kernel("put(dest, 1, tile_dot_mime(x))"), Target.host())
