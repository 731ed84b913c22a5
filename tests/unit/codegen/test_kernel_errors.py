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
        ("put(dest, 1, max(x, x))", r"max does not take \(float32, float32\); it is called as max"),
        ("put(dest, 1, maxx(x, x))", "'maxx' is neither a variable nor .* did you mean 'max'"),
        (
            "store(dest, 1, x)",
            r"store does not take \(.*\); it is called as store\(p, i, v\); docs",
        ),
        ("put(dest, 1)", r"put has 2 arguments; it is called as put\(p, i, x\); docs/reference"),
        ("y = exp(x, x)", r"exp has 2 arguments; it is called as exp\(x\)"),
        ("y = splat_float32(x)", r"has 1 argument; it is called as splat_float32\(number, la"),
        ("put(dest, 1, (x)", r"does not compile: it is no Python, '\(' was never closed"),
        ("y = dest[0]", r"Python's \[\] does not take \(float32\*, .*\); memory is read"),
        ("dest[0] = x", r"Python's \[\] = does not take"),
        ("y = load(dest, 0, 4) + load(dest, 0, 4)", r"Python's \+ does not take \(float32x4, flo"),
        (
            "y = own_share(dest, 1, 2, 3, 1)",
            r": float32\* is given where int64 is needed;",
        ),
        ("y = not dest", r"Python's not does not take"),
        ("if dest: pass", r"Python's if does not take"),
        ("y = len(dest)", r"Python's len does not take \(float32\*\)"),
    ],
)
def test_misuse_of_a_word(line: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as raised:
        compile_kernel(kernel(line), Target.host())
    told = str(raised.value)
    assert f"line 3, `{line}`" in told
    assert "\x1b" not in told
    assert told.endswith(f"   3 |     {line}")


@pytest.mark.parametrize(
    "call",
    [
        *(
            "get(dest, x)",
            "put(dest, x, x)",
            "put(dest, 1, load(dest, 0, 4))",
            "put(dest, 1, dest)",
        ),
        *("load(dest, x, 4)", "load(dest, 0, 0)", "load_masked(dest, 0, 4, x)"),
        *("load_between(dest, 0, 4, x, 1)", "store(dest, x, load(dest, 0, 4))"),
        *("store_masked(dest, 0, load(dest, 0, 4), x)", "broadcast(dest, x, 4)", "at(dest, x)"),
        *("copy(dest, x, dest, 0, 1)", "clear(dest, 0, x)", "fill(dest, 0, dest, 1)"),
        *("splat_float32(dest, 4)", "splat_float32(x, 0)", "iota_float32(0)"),
    ],
)
def test_arguments_of_another_kind(call: str) -> None:
    """A place is an integer, and a vector is no number."""
    name, _, _ = call.partition("(")
    with pytest.raises(CompileError, match=rf"{name} does not take \(.*it is called as {name}\("):
        compile_kernel(kernel(f"y = {call}"), Target.host())


def test_what_numba_says_otherwise_is_told_without_colours() -> None:
    told = described(kernel("pass"), ValueError("\x1b[1mnot so\x1b[0m"), {})
    assert "this is a defect of its generator\nValueError: not so\n" in told


def test_a_function_of_a_user_is_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "functions_from_outside", lambda: {"tile_dot_mine": abs})
    with pytest.raises(CompileError, match="did you mean 'tile_dot_mine'"):
        compile_kernel(kernel("put(dest, 1, tile_dot_mime(x))"), Target.host())
