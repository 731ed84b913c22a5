"""The composition of a model: the same parameters whether its sizes are given or open."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from glow_nb.base.summary import Summary, counts_as_parameters
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.text_files import SUFFIX

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import SymbolicModel


def summary_of(model: Path, loaded: Function | Program | SymbolicModel) -> Summary:
    """Return what the file *model*, which *loaded* was read from, consists of.

    The parameters of an ONNX file are the numbers in the file: the import adds constants and folds
    others. Those of a program are all of its weights.
    """
    if not isinstance(loaded, Function | Program):
        return loaded.summary()
    if isinstance(loaded, Program):
        opcodes = Counter(instruction.opcode for instruction in loaded.work)
        types = [weight.type for weight in loaded.weights]
    else:
        opcodes = Counter(node.opcode for node in loaded)
        types = [
            each.type
            for each in loaded.constants
            if counts_as_parameters(each.type.kind, each.type.rank, is_weight=each.is_weight)
        ]
    size, size_bytes = sum(type.size for type in types), sum(type.size_bytes for type in types)
    found = Summary(loaded.name, opcodes, size, size_bytes)
    if isinstance(loaded, Program) or model.suffix == SUFFIX:
        return found
    from glow_nb.formats.onnx.importer import load_model
    from glow_nb.formats.onnx.importer import summary_of as summary_of_file

    own = summary_of_file(load_model(str(model)))
    return replace(found, parameters=own.parameters, parameter_bytes=own.parameter_bytes)
