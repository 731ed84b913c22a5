"""Properties of the processor for the kernel and code generators. Needs no numba."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

import llvmlite.binding as llvm

from glow_nb.base.dot_instruction import MATRIX_REGISTERS
from glow_nb.base.errors import OptionError
from glow_nb.base.schema import listed
from glow_nb.kernels.machine.choose import ChosenRow, choose_row
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.system.host_caches import available_processors, caches_of
from glow_nb.system.tile_registers import tile_registers

LANE_COUNTS = (4, 8, 16)
FLOAT_BYTES = 4
CACHES_VARIABLE = "GLOW_NB_CACHES_OF"
"""The environment variable that names the machine whose caches kernels are planned for."""

MATRIX_FEATURES = frozenset({"amx-tile", "amx-int8", "amx-bf16"})
"""What LLVM calls the parts of AMX that kernels use together."""

CACHES = ("l1_bytes", "l2_bytes", "l3_bytes")
"""Sizes of a target that replace those of its row."""

TILE_FEATURES = "amx-"
"""Prefix of LLVM's names of features about tile registers."""

OWN_SIZE = "Said for this target, instead of its row's; for a host, by its system."
"""The provenance of such a size."""


@dataclass(frozen=True)
class Target:
    """A processor to generate code for.

    Attributes:
        triple: LLVM target triple.
        cpu: LLVM processor name.
        features: LLVM feature string, ``+avx2,-avx512f,...``.
        lanes: ``float32`` elements in one vector; more than the hardware supports is allowed but
            slow.
        l1_bytes: First-level data cache of one core; 0 for that of the machine's row.
        l2_bytes: Second-level cache of one core; 0 for that of the machine's row.
        l3_bytes: Last-level cache, which cores share; 0 for that of the machine's row.
        row: The machine row; None for the row that the processor's name and features select.
    """

    triple: str
    cpu: str
    features: str
    lanes: int
    l1_bytes: int = 0
    l2_bytes: int = 0
    l3_bytes: int = 0
    row: Machine | None = None

    def __post_init__(self) -> None:
        if self.lanes not in LANE_COUNTS:
            raise OptionError(f"target: {self.lanes} lanes; choose one of {LANE_COUNTS}")

    @classmethod
    def host(cls, lanes: int | None = None) -> Target:
        """Return this machine; *lanes* forces a vector width, which LLVM makes legal.

        Its cache sizes come from the operating system, if it reports them. The permission to use
        tile registers is requested; if it is refused, the target lacks them.
        """
        triple, cpu, features, native_lanes = _host_processor()
        return cls(triple, cpu, features, lanes or native_lanes, *_host_caches())

    @classmethod
    def of(cls, machine: Machine) -> Target:
        """Return a typical processor that *machine* describes, with the caches of *machine*."""
        lanes = machine.vector_bytes // FLOAT_BYTES
        return cls(machine.triple, machine.cpus[0], machine.features, lanes, row=machine)

    def with_machine(self, **numbers: Any) -> Target:
        """Return this target with other *numbers* of its machine, by name.

        Raises:
            OptionError: A machine has no such number.
        """
        known = {field.name for field in fields(Machine)}
        if unknown := sorted(set(numbers) - known):
            raise OptionError(f"machine: no number is called {unknown[0]!r}; see `glow-nb machine`")
        row = replace(self.machine, **numbers)
        return replace(self, row=row, l1_bytes=0, l2_bytes=0, l3_bytes=0)

    @cached_property
    def machine(self) -> Machine:
        """The machine row of the processor, with the caches of this target."""
        row = self.row or self.chosen_row.machine
        own = {name: size for name in CACHES if (size := getattr(self, name))}
        if not own:
            return row
        known = {**row.provenance, **dict.fromkeys(own, OWN_SIZE)}
        return replace(row, **own, provenance=known)

    @property
    def chosen_row(self) -> ChosenRow:
        """The row that the processor's name and features select, and why."""
        return choose_row(self.cpu, FLOAT_BYTES * self.native_lanes)

    @cached_property
    def enabled_features(self) -> frozenset[str]:
        """The features that code for this processor may use, without their signs."""
        named = self.features.split(",")
        return frozenset(name.removeprefix("+") for name in named if name.startswith("+"))

    @property
    def vector_registers(self) -> int:
        """Vector registers that a kernel may use: 32 with AVX-512 and on ARM, otherwise 16."""
        has_many = "+avx512vl" in self.features or self.triple.startswith(("aarch64", "arm64"))
        return 32 if has_many else 16

    @cached_property
    def instruction_sets(self) -> frozenset[str]:
        """Instructions that kernels may use besides plain vectors.

        ``multiply_add`` is that of floats in one instruction, rounded once. ``convert_float16`` is
        F16C on x86-64 and always there on 64-bit ARM. ``permute_bytes_64`` is VBMI,
        ``shuffle_bytes_<n>`` is ``pshufb`` on n bytes, as many as the lanes hold, and
        ``pair_bytes_<n>`` that and ``vpmaddubsw``, both in the form with three operands, as
        assembly, which is translated for processors of this machine's kind alone.
        ``matrix_registers`` are the tiles of AMX, for bytes and for bfloat16, as assembly.
        ``convert_bfloat16_<n>`` is the instruction that rounds n numbers of ``float32``.
        ``pack_bytes_<n>`` are the instructions that narrow n numbers of ``float32`` to bytes,
        ``mask_bytes`` those that load some bytes of a vector. ``tie_<n>`` says that
        a piece of assembly, even an empty one, may have operands in vector registers, of n bytes.
        """
        features, bytes = self.enabled_features, 4 * min(self.lanes, self.native_lanes)
        shuffle = {16: "ssse3", 32: "avx2", 64: "avx512bw"}[bytes]
        pack, pair = {16: "sse2"}.get(bytes, shuffle), {16: "avx"}.get(bytes, shuffle)
        is_of_this_kind = _architecture(self.triple) == _architecture(llvm.get_process_triple())
        is_arm = self.triple.startswith(("aarch64", "arm64"))
        found = {
            "multiply_add": "fma" in features or _architecture(self.triple) != "x86_64",
            "convert_float16": is_arm or "f16c" in features,
            "permute_bytes_64": bytes == 64 and "avx512vbmi" in features,
            f"shuffle_bytes_{bytes}": shuffle in features,
            f"pair_bytes_{bytes}": is_of_this_kind and pair in features,
            f"pack_bytes_{bytes // 4}": pack in features,
            "convert_bfloat16_16": "avx512bf16" in features,
            "convert_bfloat16_8": features >= {"avx512bf16", "avx512vl"},
            "mask_bytes": self.has_byte_masks,
            MATRIX_REGISTERS: is_of_this_kind and features >= MATRIX_FEATURES,
            f"tie_{4 * self.native_lanes}": _architecture(self.triple) == "x86_64",
        }
        return frozenset(name for name, is_there in found.items() if is_there)

    @property
    def has_byte_masks(self) -> bool:
        """Return whether AVX-512's masks read a part of a vector of bytes as fast as the whole."""
        return {"avx512bw", "avx512vl"} <= self.enabled_features

    @property
    def native_lanes(self) -> int:
        """``float32`` lanes of one hardware register."""
        if "+avx512f" in self.features:
            return 16
        return 8 if "+avx" in self.features.split(",") else 4

    @property
    def unit_lanes(self) -> int:
        """``float32`` lanes that one of the arithmetic units takes in a cycle."""
        return min(self.native_lanes, self.machine.fma_bytes // FLOAT_BYTES)

    @cached_property
    def passes(self) -> int:
        """The number of passes of a vector of ``lanes`` through an arithmetic unit."""
        return max(1, self.lanes // self.unit_lanes)


def _architecture(triple: str) -> str:
    return triple.split("-")[0]


@cache
def _host_processor() -> tuple[str, str, str, int]:
    features = llvm.get_host_cpu_features()
    if not tile_registers().are_usable:
        features.update({name: False for name in features if name.startswith(TILE_FEATURES)})
    lanes = 16 if features.get("avx512f") else 8 if features.get("avx2") else 4
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), features.flatten(), lanes


@cache
def _host_caches() -> tuple[int, int, int]:
    """Return the sizes of this machine's data caches in bytes, 0 for one that is not known.

    They are those of the row that the environment names, if it names one. A machine of two levels
    has its last cache in the second one.

    Raises:
        OptionError: There is no such row.
    """
    chosen = os.environ.get(CACHES_VARIABLE)
    if chosen:
        if chosen not in ROWS:
            raise OptionError(
                f"{CACHES_VARIABLE}={chosen!r:.40}: no machine; give one of {listed(ROWS)}"
            )
        row = ROWS[chosen]
        return row.l1_bytes, row.l2_bytes, row.l3_bytes
    found = {cache.level: cache.size_bytes for cache in caches_of(available_processors()[0])}
    l2_bytes = found.get(2, 0)
    return found.get(1, 0), l2_bytes, found.get(3, l2_bytes)
