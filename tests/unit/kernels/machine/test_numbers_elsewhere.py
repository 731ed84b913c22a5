"""What is known of a processor stands in its row, and nowhere else.

A constant of a module is suspected to be such a number if its name or its explanation speaks of
cycles, caches, processors and the like. Of those that are suspected, each is explained here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import glow_nb

PACKAGE = Path(glow_nb.__file__).parent
FOLDERS = ("kernels", "codegen", "backends")
"""Where kernels are planned, written and run."""

NAME = re.compile(
    r"(^|_)(CYCLES?|NS|LATENCY|PORTS|BANDWIDTH|SHARE|FACTOR|PENALTY|AHEAD|PREFETCH|STREAM(S|ED)?"
    r"|CACHE|L[123]|LEVEL|DRAM|WAYS|SETS|UNROLL|NEAR|FAR|LINES)(_|$)"
)
TEXT = re.compile(r"\b(Zen \d|caches?|cycles?|processors?|cores?|TLB|DRAM)\b", re.IGNORECASE)

ALLOWED = {
    "kernels/bilinear/plan.py PAD_BYTES": "a line of a cache, as in glow_nb.base.alignment",
    "kernels/movement/scatter.py ENOUGH_LINES": "lines of a tensor that threads share",
    "kernels/products/caches.py LONGEST_CHAIN": "numerical: rounding errors of a sum",
    "kernels/products/product_plan.py MOST_SHORTER": "how many lengths of a stream are tried",
    "kernels/transposes/plan.py PIECE_BYTES": "instruction sets shuffle within 16 bytes",
    "kernels/transposes/transpose.py LONG_RUN_BYTES": "two lines of a cache: a copy moves them",
    "codegen/measure_limits.py CHAINS": "what measures a machine knows none",
    "codegen/measure_limits.py STREAMS": "what measures a machine knows none",
    "codegen/dot_loops.py _CHAINS": "what measures a machine knows none",
    "codegen/dot_loops.py _TILE_CHAINS": "what measures a machine knows none",
    "codegen/measure_limits.py LAST_CACHE": "a level, where the system tells nothing",
    "codegen/threads.py GRACE": "generated once for all machines",
    "codegen/threads.py SPINS": "generated once for all machines",
    "codegen/threads.py PATIENCE": "generated once for all machines",
    "backends/cpu/measure_candidates.py DIFFERENT_WEIGHTS": "a prime number",
}
"""Constants that are suspected, and why they are in no row."""


def is_numeric(value: ast.expr) -> bool:
    """Return whether *value* is a number, or holds some."""
    match value:
        case ast.Constant(value=number):
            return type(number) in (int, float)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return any(map(is_numeric, parts))
        case ast.BinOp(left=left, right=right):
            return is_numeric(left) and is_numeric(right)
        case ast.UnaryOp(operand=operand):
            return is_numeric(operand)
    return False


def suspected(text: str) -> Iterator[str]:
    """Yield the names of constants of a module, which has this *text*, that tell of a machine."""
    body = ast.parse(text).body
    for statement, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        match statement:
            case ast.Assign(targets=[target], value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                pass
            case _:
                continue
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        explained = ""
        match following:
            case ast.Expr(value=ast.Constant(value=str() as explained)):
                pass
        if is_numeric(value) and (any(map(NAME.search, names)) or TEXT.search(explained)):
            yield from names


def test_numbers_of_processors_stand_in_their_rows() -> None:
    found = {
        f"{path.relative_to(PACKAGE).as_posix()} {name}"
        for folder in FOLDERS
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        if (PACKAGE / "kernels" / "machine") not in path.parents
        for name in suspected(path.read_text(encoding="utf-8"))
    }
    missing = sorted(found - set(ALLOWED))
    assert not missing, f"{missing}: give each to glow_nb.kernels.machine, or explain it here"
    assert not sorted(set(ALLOWED) - found), "no longer there, or no longer suspected"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("COPY_CYCLES = 0.1", ["COPY_CYCLES"]),
        ("LEVEL_2_SHARE: float = 0.5", ["LEVEL_2_SHARE"]),
        ("NEAR, FAR = 1, 2", ["NEAR", "FAR"]),
        ("BEYOND = {'znver4': 1.5}\n'On a Zen 4 core.'", ["BEYOND"]),
        ("SWEPT = 1 << 9\n'So many bytes of a cache.'", ["SWEPT"]),
        ("COUNT = 4\n'Tries.'", []),
        ("CACHE = None", []),
    ],
)
def test_such_constants_are_suspected(text: str, names: list[str]) -> None:
    assert list(suspected(text)) == names
