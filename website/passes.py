"""The reference of passes: the pipelines, and what each pass does with which options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import glow_nb.hlir.optimize  # noqa: F401  (which registers them)
from glow_nb.base.steps import Entries, Repeat, name_of_step
from glow_nb.compiler.pipelines import INFERENCE, INSTRUCTIONS, TRAINING
from glow_nb.compiler.program_passes import PROGRAM_PASSES
from glow_nb.hlir.passes import GRAPH_PASSES
from website.markdown import code, description, table

PIPELINES = {"INFERENCE": INFERENCE, "TRAINING": TRAINING, "INSTRUCTIONS": INSTRUCTIONS}


def reference() -> str:
    """Return the pipelines as lists, and all passes of each level."""
    return "\n".join(
        [
            "## Pipelines\n",
            *(f"`glow_nb.{name}`:\n\n{''.join(_steps(p))}" for name, p in PIPELINES.items()),
            "## Graph passes\n",
            *_passes(GRAPH_PASSES.passes),
            "## Instruction passes\n",
            *_passes(PROGRAM_PASSES.passes),
        ]
    )


def own_passes(passes: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the package by name, in alphabetical order."""
    return {n: passes[n] for n in sorted(passes) if passes[n].__module__.startswith("glow_nb.")}


def _steps(entries: Entries, indent: str = "") -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, Repeat):
            yield f"{indent}- repeat until nothing changes, at most {entry.limit} times:\n"
            yield from _steps(entry.steps, indent + "    ")
        else:
            name = name_of_step(entry)
            yield f"{indent}- [`{name}`](#{name})\n"
    if not indent:
        yield "\n"


def _passes(passes: Mapping[str, Any]) -> Iterator[str]:
    for name, function in own_passes(passes).items():
        yield f"### `{name}` {{ #{name} }}\n"
        yield description(function) + "\n"
        rows = [
            (code(option.name), code(repr(option.default)), code(str(option.annotation)))
            for option in inspect.signature(function).parameters.values()
            if option.kind is option.KEYWORD_ONLY
        ]
        if rows:
            yield table(("option", "default", "type"), rows)
