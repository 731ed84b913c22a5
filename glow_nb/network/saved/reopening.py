"""The levels of a saved network, read from their texts; its kernels, generated once more."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from glow_nb.backends import register_operators
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.base.alignment import Bytes
from glow_nb.base.precision import PrecisionReport
from glow_nb.base.steps import Entry, Repeat, Step
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.codegen.program_memory import PlacedWeight
from glow_nb.compiler.pipelines import Pipeline
from glow_nb.hlir.parse import parse_function
from glow_nb.kernels.target import Target
from glow_nb.llir.parse import parse_program
from glow_nb.network.levels import Levels
from glow_nb.network.saved.files import (
    MANIFEST,
    graph_file,
    levels_file,
    map_regions,
    program_file,
)
from glow_nb.network.saved.manifest import Manifest
from glow_nb.network.saved.saved_executable import Reopened
from glow_nb.system.regular_files import read_text


def reopen(folder: Path, number: int, loaded: LoadedProgram) -> Reopened:
    """Return what function *number* in *folder*, which runs as *loaded*, was made of."""
    register_operators()
    manifest = Manifest.from_text(read_text(folder / MANIFEST))
    regions = map_regions(folder, manifest.regions)
    levels = json.loads(read_text(folder / levels_file(number)))
    placed = tuple(PlacedWeight(n, _type(*t), *place) for n, *t, place in levels["weights"])
    memory = replace(loaded.layout.memory, weights=placed)
    program = parse_program(
        read_text(folder / program_file(number)),
        program_file(number),
        {**memory.arrays, **_arrays(levels["program"], regions)},
    )
    function = None
    if "graph" in levels:
        function = parse_function(
            read_text(folder / graph_file(number)),
            graph_file(number),
            _arrays(levels["graph"], regions),
        )
    executable = CpuExecutable(
        program,
        Target(*levels["target"]),
        threads=manifest.functions[number].threads,
        placed=memory,
    )
    pipeline = Pipeline(_entries(levels["pipeline"]))
    precision = PrecisionReport.from_plain(levels["precision"])
    return Reopened(Levels(function, program, pipeline, precision), executable)


def _arrays(places: Iterable[Sequence[Any]], regions: Sequence[Bytes]) -> dict[str, Array]:
    """Return by name the arrays that lie in *regions*, where *places* says."""
    arrays: dict[str, Array] = {}
    for name, kind, shape, number, offset in places:
        type = _type(kind, shape)
        place = regions[number][offset : offset + type.size_bytes]
        arrays[name] = place.view(type.kind.dtype).reshape(type.shape)
    return arrays


def _type(kind: str, shape: Sequence[int]) -> TensorType:
    return TensorType(ElementKind(kind), tuple(shape))


def _entries(rows: Iterable[Sequence[str]]) -> tuple[Entry, ...]:
    """Return the steps of a table of a pipeline: mark, name, owner, and what each does."""
    entries: list[Entry] = []
    for mark, group in groupby(rows, lambda row: row[0]):
        steps: tuple[Entry, ...] = tuple(Step(n, owner=o, does=does) for _, n, o, does in group)
        for _ in mark.split():
            steps = (Repeat(steps),)
        entries += steps
    return tuple(entries)
