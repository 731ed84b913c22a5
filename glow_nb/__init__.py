"""glow_nb: a compiler for neural networks, after the Glow paper, that can be read and scripted.

::

    import glow_nb

    net = glow_nb.compile("resnet50.onnx", threads=2)
    outputs = net.run({"data": images})
"""

from __future__ import annotations

import importlib

from glow_nb.api import compile, load, print_ir
from glow_nb.backends import Backend
from glow_nb.compiler import lower_for, optimize
from glow_nb.dynamic import DynamicNetwork
from glow_nb.errors import (
    CompileError,
    DefinitionError,
    FeedError,
    GlowError,
    GlowWarning,
    MemoryLimitError,
    ModelError,
    OptionError,
    ParseError,
    PassError,
    UnsupportedError,
    VerifyError,
)
from glow_nb.files import save_text
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function, Module, Node, Placeholder, Value
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter, rewrite
from glow_nb.network import CompiledNetwork, Network
from glow_nb.passes import Repeat, Step
from glow_nb.pipelines import INFERENCE, INSTRUCTIONS

__version__ = "0.1.0"

_MODULES = ("bisection", "observers")
"""Public modules that are imported when they are first asked for."""

__all__ = [
    "INFERENCE",
    "INSTRUCTIONS",
    "Backend",
    "Builder",
    "CompileError",
    "CompiledNetwork",
    "Constant",
    "DefinitionError",
    "DynamicNetwork",
    "FeedError",
    "Function",
    "GlowError",
    "GlowWarning",
    "MemoryLimitError",
    "ModelError",
    "Module",
    "Network",
    "Node",
    "OptionError",
    "ParseError",
    "PassError",
    "Placeholder",
    "Repeat",
    "Rewriter",
    "Step",
    "UnsupportedError",
    "Value",
    "VerifyError",
    "compile",
    "evaluate",
    "load",
    "lower_for",
    "optimize",
    "print_ir",
    "register_pass",
    "rewrite",
    "save_text",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"glow_nb.{name}")
    raise AttributeError(f"module 'glow_nb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
