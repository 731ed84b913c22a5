"""Parts of pages that are generated from the code, by their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from website import (
    commands,
    errors,
    formulas,
    grammar,
    instructions,
    kernel_words,
    machine_numbers,
    operators,
    passes,
)
from website.names import MODULES, reference_of


def name_of(module: str) -> str:
    """Return the name of the part that documents the names of *module*."""
    return "names_of_" + module.rpartition(".")[2]


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands.reference,
    "errors": errors.reference,
    "formulas": formulas.reference,
    "instructions": instructions.reference,
    "kernels": kernel_words.reference,
    "kinds": grammar.kind_table,
    "machine": machine_numbers.reference,
    "operators": operators.reference,
    "passes": passes.reference,
    "tokens": grammar.token_table,
    **{name_of(module): partial(reference_of, module) for module in MODULES},
}
"""Functions that return the Markdown of a part."""

PART = re.compile(r"<!-- generated: (\w+) -->\n.*?<!-- end -->", re.DOTALL)
"""The place of a part in a page; what is between the comments is for readers of the repository."""


def with_parts(text: str) -> str:
    """Return the *text* of a page with its generated parts."""
    return PART.sub(lambda found: PARTS[found[1]](), text)
