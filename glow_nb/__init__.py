"""glow_nb: a compiler for neural networks, after the Glow paper, that can be read and scripted.

::

    import glow_nb

    net = glow_nb.compile("resnet50.onnx", threads=2)
    outputs = net.run({"data": images})
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glow_nb.api import compile, load
    from glow_nb.compiler import lower_for, optimize
    from glow_nb.errors import GlowError, GlowWarning
    from glow_nb.files import save_text
    from glow_nb.hlir.builder import Builder
    from glow_nb.hlir.evaluate import evaluate
    from glow_nb.hlir.graph import Constant, Function, Module, Node, Placeholder, Value
    from glow_nb.hlir.passes import register_pass
    from glow_nb.hlir.rewrite import Rewriter, rewrite
    from glow_nb.network import CompiledNetwork
    from glow_nb.passes import Repeat, Step
    from glow_nb.pipelines import INFERENCE, INSTRUCTIONS

__version__ = "0.1.0"

_HOMES = {
    "Builder": "glow_nb.hlir.builder",
    "CompiledNetwork": "glow_nb.network",
    "Constant": "glow_nb.hlir.graph",
    "Function": "glow_nb.hlir.graph",
    "GlowError": "glow_nb.errors",
    "GlowWarning": "glow_nb.errors",
    "INFERENCE": "glow_nb.pipelines",
    "INSTRUCTIONS": "glow_nb.pipelines",
    "Module": "glow_nb.hlir.graph",
    "Node": "glow_nb.hlir.graph",
    "Placeholder": "glow_nb.hlir.graph",
    "Repeat": "glow_nb.passes",
    "Rewriter": "glow_nb.hlir.rewrite",
    "Step": "glow_nb.passes",
    "Value": "glow_nb.hlir.graph",
    "compile": "glow_nb.api",
    "evaluate": "glow_nb.hlir.evaluate",
    "load": "glow_nb.api",
    "lower_for": "glow_nb.compiler",
    "optimize": "glow_nb.compiler",
    "register_pass": "glow_nb.hlir.passes",
    "rewrite": "glow_nb.hlir.rewrite",
    "save_text": "glow_nb.files",
}
"""Public names and the modules that hold them, imported when they are first asked for."""

_MODULES = ("bisection", "observers")
"""Public modules, likewise."""

__all__ = [
    "INFERENCE",
    "INSTRUCTIONS",
    "Builder",
    "CompiledNetwork",
    "Constant",
    "Function",
    "GlowError",
    "GlowWarning",
    "Module",
    "Node",
    "Placeholder",
    "Repeat",
    "Rewriter",
    "Step",
    "Value",
    "compile",
    "evaluate",
    "load",
    "lower_for",
    "optimize",
    "register_pass",
    "rewrite",
    "save_text",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"glow_nb.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'glow_nb' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
