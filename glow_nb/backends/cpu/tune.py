"""Choosing by measurement: ``compile(tune=True)``.

The candidates of a convolution or a matrix product that are worth trying are timed on this
machine (see :mod:`glow_nb.backends.cpu.measure_candidates`) and the fastest is taken. What was
measured is kept in the cache folder, one file for each product, so that the next compilation makes
the same choice without measuring. A file belongs to the shape, the element kind, the number of
threads, the processor and the version of the kernels; what is not whole or not of these is measured
anew. In a folder that cannot be written, measurements last for the process.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from glow_nb.backends.cpu.algorithms import Candidate
from glow_nb.backends.cpu.algorithms.candidates import WIDTHS_TO_TRY
from glow_nb.backends.cpu.measure_candidates import candidate_program, measure_programs
from glow_nb.backends.cpu.products import Product, product_key, weight_bytes
from glow_nb.backends.cpu.select_packed_operators import (
    candidates_of,
)
from glow_nb.base.types import ElementKind
from glow_nb.codegen.cache import ObjectCache, toolchain
from glow_nb.codegen.pool import compile_objects
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.products import convolution_cost
from glow_nb.kernels.strassen.matmul import STRASSEN
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.convolution import WINOGRAD
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import Program
from glow_nb.system.cache_folder import default_folder, write_whole
from glow_nb.system.regular_files import read_text

REARRANGING = (WINOGRAD, STRASSEN)
"""Algorithms that round more than the others, and are measured beside the best of these."""

MOST_CANDIDATES = 5
WORST_ESTIMATE = 1.5
"""At most this number of candidates with the best estimates are measured, if their estimates are at
most this number of times the best one; the best direct one is always measured."""

KERNELS = Path(convolution_cost.__file__).parents[1]
"""The folder of the generators."""

_measured: dict[str, dict[str, float]] = {}
"""What was measured in this process, by key."""


class MeasuringTuner:
    """Chooses the fastest candidate for each product on this machine."""

    def __init__(
        self,
        target: Target,
        threads: int,
        folder: Path | None = None,
        *,
        blocks: int = WIDTHS_TO_TRY,
    ) -> None:
        """Choose for *target* and *threads*; *folder*, by default the cache, keeps measurements."""
        self.target, self.threads, self.blocks = target, threads, blocks
        self.folder = folder or default_folder()

    def choose(
        self,
        nodes: Sequence[Product],
        winograd: str,
        strassen: str = "auto",
    ) -> Mapping[str, Candidate]:
        """Return the fastest candidate of each node by its key, measuring what is not known."""
        picks: dict[str, Candidate] = {}
        for key, times in self.measure(nodes, winograd, strassen).items():
            picks[key] = min(times, key=lambda candidate: times[candidate])
        return picks

    def measure(
        self,
        nodes: Sequence[Product],
        winograd: str = "auto",
        strassen: str = "auto",
    ) -> dict[str, dict[Candidate, float]]:
        """Return the seconds of each candidate of each of *nodes*, by the key of the node.

        Nodes of other kinds than float32, and those with only one candidate, are left out.
        """
        far_bytes = self._far_bytes(nodes)
        known: dict[str, dict[Candidate, float]] = {}
        unknown: dict[str, tuple[Product, list[Candidate]]] = {}
        for node in nodes:
            key = product_key(node)
            if node.type.kind is not ElementKind.FLOAT32 or key in known:
                continue
            candidates = self._worth_trying(node, winograd, strassen)
            if len(candidates) < 2:
                continue
            times = self._load(key, far_bytes, candidates)
            if times is None:
                unknown[key] = node, candidates
            else:
                known[key] = times
        self._compile([(node, candidates) for node, candidates in unknown.values()], far_bytes)
        for key, (node, candidates) in unknown.items():
            known[key] = self.measure_anew(node, candidates, beside=nodes)
            self._store(key, far_bytes, known[key])
        return known

    def measure_anew(
        self, node: Product, candidates: Sequence[Candidate], *, beside: Sequence[Product]
    ) -> dict[Candidate, float]:
        """Return the seconds of the *candidates* of *node*, measured now; nothing of it is kept.

        The network has the products *beside*, *node* among them.
        """
        far_bytes = self._far_bytes(beside)
        programs = [candidate_program(node, candidate, far_bytes) for candidate in candidates]
        return dict(
            zip(candidates, measure_programs(programs, self.target, self.threads), strict=True)
        )

    def _worth_trying(self, node: Product, winograd: str, strassen: str) -> list[Candidate]:
        candidates = candidates_of(
            node, self.target, winograd, self.blocks, self.threads, strassen=strassen
        )
        direct = next(
            candidate for candidate in candidates if candidate.plan.algorithm not in REARRANGING
        )
        near = [
            candidate
            for candidate in candidates
            if candidate.cycles <= WORST_ESTIMATE * candidates[0].cycles
        ][:MOST_CANDIDATES]
        return near if direct in near else [*near, direct]

    def _far_bytes(self, nodes: Sequence[Product]) -> int:
        """Return what passes through the caches between two uses of a weight: all weights.

        It is rounded to a power of two, so that networks of like size share measurements, and need
        not be more than what clears the last cache.
        """
        size = weight_bytes(nodes)
        return min(1 << max(16, size.bit_length()), 2 * self.target.machine.l3_bytes)

    def _compile(self, requests: Sequence[tuple[Product, list[Candidate]]], far_bytes: int) -> None:
        """Compile all kernels of *requests* in parallel, so that measuring finds them."""
        programs = (
            candidate_program(n, candidate, far_bytes)
            for n, candidates in requests
            for candidate in candidates
        )
        sources = [s for program in programs for s in _sources(program, self.target)]
        compile_objects(sources, self.target, cache=ObjectCache())

    def _key(self, key: str, far_bytes: int) -> str:
        parts = (
            key,
            far_bytes,
            self.threads,
            self.target,
            toolchain(),
            _hash_of(KERNELS),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _path(self, digest: str) -> Path | None:
        return self.folder / f"tuned-{digest[:32]}.json" if self.folder else None

    def _load(
        self, key: str, far_bytes: int, candidates: Sequence[Candidate]
    ) -> dict[Candidate, float] | None:
        """Return the stored seconds of *candidates*; None unless all of them are there."""
        digest = self._key(key, far_bytes)
        stored = _measured.get(digest) or _read(self._path(digest), digest)
        if stored is None or any(str(candidate.plan) not in stored for candidate in candidates):
            return None
        return {candidate: stored[str(candidate.plan)] for candidate in candidates}

    def _store(self, key: str, far_bytes: int, times: Mapping[Candidate, float]) -> None:
        digest = self._key(key, far_bytes)
        _measured[digest] = {str(candidate.plan): seconds for candidate, seconds in times.items()}
        path = self._path(digest)
        if path is not None:
            entry = {"key": digest, "node": key, "seconds": _measured[digest]}
            write_whole(path, json.dumps(entry, indent=1).encode())


def _read(path: Path | None, digest: str) -> dict[str, float] | None:
    """Return the seconds by name stored in the file *path* under *digest*; None if it is spoilt."""
    if path is None:
        return None
    try:
        entry = json.loads(read_text(path))
        if entry["key"] != digest:
            return None
        seconds = {str(name): float(value) for name, value in entry["seconds"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return seconds if all(0 < value < math.inf for value in seconds.values()) else None


def _sources(program: Program, target: Target) -> list[KernelSource]:
    return [generate_kernel(instruction, target) for instruction in program.work]


@functools.cache
def _hash_of(folder: Path) -> str:
    """Return a hash of the generators in *folder*: other kernels need other measurements.

    Another estimate makes no other kernels.
    """
    digest = hashlib.sha256()
    for path in sorted(set(folder.rglob("*.py")) - set(folder.rglob("*cost.py"))):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
