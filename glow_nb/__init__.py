"""glow_nb: a compiler for neural networks, after the Glow paper, that can be read and scripted.

::

    import glow_nb

    net = glow_nb.compile("resnet50.onnx", threads=2)
    outputs = net.run({"data": images})
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from glow_nb.base.version import __version__ as __version__

if TYPE_CHECKING:
    from glow_nb.network.public_names import *


__all__ = [
    "INFERENCE",
    "INSTRUCTIONS",
    "TRAINING",
    "Backend",
    "Builder",
    "CalibrationError",
    "CompileError",
    "CompiledNetwork",
    "Constant",
    "Cpu",
    "DeadlineError",
    "DefinitionError",
    "DeviceError",
    "DynamicNetwork",
    "FeedError",
    "FiniteCheck",
    "Function",
    "GlowError",
    "GlowWarning",
    "GradientError",
    "GrowingNetwork",
    "Interpreter",
    "MemoryLimitError",
    "ModelError",
    "Module",
    "ModuleNetwork",
    "Network",
    "Node",
    "NonFiniteError",
    "OptionError",
    "ParseError",
    "PartitionError",
    "PassError",
    "Pipeline",
    "Placeholder",
    "RefusedError",
    "Repeat",
    "Rewriter",
    "StagedNetwork",
    "State",
    "StateError",
    "Step",
    "TrainingError",
    "UnsupportedError",
    "Value",
    "VerifyError",
    "build",
    "compile",
    "differentiate",
    "evaluate",
    "export_onnx",
    "load",
    "load_compiled",
    "load_module",
    "load_program",
    "lower_for",
    "optimize",
    "plans",
    "print_ir",
    "register_pass",
    "rewrite",
    "save_text",
    "show_versions",
]


_ALONE = {
    "compile": "glow_nb.network.compiling",
    "load_compiled": "glow_nb.network.saved.load_compiled",
    "show_versions": "glow_nb.network.versions",
}
"""Public names that come without the others, and the modules that have them."""

_MODULES = ("bisection", "observers", "quant", "runtime", "train")
"""Public modules, imported at first use."""


def __getattr__(name: str) -> object:
    """Import what is not there yet: all public names come at once, any module by itself.

    ``compile`` and ``load_compiled`` come alone: a network that is found needs nothing else. And
    ``show_versions`` works where something else does not.
    """
    if name in _ALONE:
        globals()[name] = getattr(importlib.import_module(_ALONE[name]), name)
        return globals()[name]
    if name in __all__:
        public = importlib.import_module("glow_nb.network.public_names")
        globals().update({public_name: getattr(public, public_name) for public_name in __all__})
        return globals()[name]
    absent = AttributeError(f"module 'glow_nb' has no attribute {name!r}")
    if name.startswith("__"):
        raise absent
    try:
        return importlib.import_module(f"glow_nb.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"glow_nb.{name}":
            raise  # the module is there, and what it imports is not
        raise absent from None


def __dir__() -> list[str]:
    special = [name for name in globals() if name.startswith("__") and name.endswith("__")]
    return sorted({*__all__, *_MODULES, *special})
