"""The meaning of the functions that generated kernel source calls, as text beside that source."""

from __future__ import annotations

import inspect
import re
import textwrap

from glow_nb.simd.namespace import NAMESPACE

LINE_LENGTH = 100
_CALLED = re.compile(r"\b([a-z_]\w*)\(")

CONVENTIONS = """
p, q: pointer arguments. i, j: places, counted in elements. lanes: elements of a vector. A tile is a
grid of vectors in registers, rows x vectors. Functions that are not listed (add, exp, where, ...)
work on each element of a vector or tile; splat_<kind>(x, lanes) repeats one number,
iota_<kind>(lanes) counts 0, 1, 2, ..., convert_<kind>(v) changes the element kind,
saturate_<kind>(v) rounds to the nearest integer of the kind, clamp_<kind>(v) takes the nearest
number within the limits of the kind and stays a float, saturate_sum_<kind>(v, w) is
saturate_<kind>(rint(v) + w), clamp_around_<kind>(v, w) is clamp_<kind>(v + w) - w, as_<kind>(p)
reads memory as another kind, and reduce_<operation>(v) combines all elements of a vector to one.
"""


def glossary(source: str) -> str:
    """Return comment lines that explain each function of the SIMD layer that *source* calls.

    A function with a text of its own is explained by it: the arguments by name, then the meaning.
    The others, which are elementwise or of a family, are covered by the introduction.
    """
    called = sorted(set(_CALLED.findall(source)) & set(NAMESPACE))
    texts = [CONVENTIONS, *(meaning(name) for name in called)]
    return "".join(_comment(text) for text in texts if text)


def meaning(name: str) -> str:
    """Return arguments and meaning of the function *name*, empty if its family explains it."""
    text = inspect.getdoc(NAMESPACE[name]) or ""
    return text if text.startswith(f"``{name}(") else ""


def _comment(text: str) -> str:
    """Return *text* as comment lines: one paragraph, its later lines indented."""
    plain = " ".join(text.replace("``", "").split())
    plain = re.sub(r"\*(\w+)\*", r"\1", plain)  # the emphasis of a docstring
    lines = textwrap.wrap(plain, LINE_LENGTH - 6, break_on_hyphens=False)
    return "".join(f"# {'    ' if number else ''}{line}\n" for number, line in enumerate(lines))
