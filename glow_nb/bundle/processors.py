"""The machines that bundles are made for, by LLVM's names: triples, and processors with features.

Kernels are planned by what stands here and by the rows of :mod:`glow_nb.kernels.machine.rows`,
never by the caches of the machine that compiles. The features are also what a bundle asks a
processor for before it takes a variant, so they name all that code for the processor may use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError, UnsupportedError
from glow_nb.base.schema import closest, listed

if TYPE_CHECKING:
    from glow_nb.kernels.target import Target

_V1 = "sse,sse2"
_V2 = f"{_V1},sse3,ssse3,sse4.1,sse4.2,popcnt,cx16,sahf"
_V3 = f"{_V2},avx,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,xsave"
_V4 = f"{_V3},avx512f,avx512bw,avx512cd,avx512dq,avx512vl"
_CRYPTOGRAPHY = "pclmul,aes"
_ZEN = f"{_V3},{_CRYPTOGRAPHY},sse4a,adx,sha"
_ICE = (
    f"{_V4},{_CRYPTOGRAPHY},adx,sha,gfni,vaes,vpclmulqdq,avx512ifma,avx512vbmi,avx512vbmi2,"
    "avx512vnni,avx512bitalg,avx512vpopcntdq"
)
_SAPPHIRE = f"{_ICE},avxvnni,avx512bf16,avx512fp16,amx-tile,amx-bf16,amx-int8"

_X86: Mapping[str, str] = {
    "x86-64": _V1,
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "nehalem": _V2,
    "westmere": f"{_V2},pclmul",
    "sandybridge": f"{_V2},pclmul,avx,xsave",
    "ivybridge": f"{_V2},pclmul,avx,xsave,f16c",
    "haswell": f"{_V3},pclmul",
    "broadwell": f"{_V3},pclmul,adx",
    "skylake": f"{_V3},{_CRYPTOGRAPHY},adx",
    "alderlake": f"{_V3},{_CRYPTOGRAPHY},adx,sha,gfni,vaes,vpclmulqdq,avxvnni",
    "skylake-avx512": f"{_V4},{_CRYPTOGRAPHY},adx",
    "cascadelake": f"{_V4},{_CRYPTOGRAPHY},adx,avx512vnni",
    "icelake-server": _ICE,
    "sapphirerapids": _SAPPHIRE,
    "emeraldrapids": _SAPPHIRE,
    "znver1": _ZEN,
    "znver2": _ZEN,
    "znver3": f"{_ZEN},vaes,vpclmulqdq",
    "znver4": f"{_ICE},sse4a,avx512bf16",
    "znver5": f"{_ICE},sse4a,avx512bf16,avxvnni,avx512vp2intersect",
}
_ARM: Mapping[str, str] = dict.fromkeys(
    (
        *("generic", "cortex-a53", "cortex-a55", "cortex-a72", "cortex-a76", "cortex-a78"),
        *("neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2"),
    ),
    "neon",
)
_RISCV: Mapping[str, str] = dict.fromkeys(("generic-rv64", "sifive-u74"), "m,a,f,d,c")


@dataclass(frozen=True)
class Platform:
    """A kind of machine.

    Attributes:
        triple: LLVM's name of it.
        processors: Features by LLVM's names of processors; the first can do the least.
        compiler: The name of a C cross compiler for it on other machines.
    """

    triple: str
    processors: Mapping[str, str]
    compiler: str

    @property
    def baseline(self) -> Target:
        """The processor that can do the least."""
        return self.target(next(iter(self.processors)))

    def target(self, cpu: str) -> Target:
        """Return the processor *cpu*; raise OptionError if there is none of this name."""
        if cpu not in self.processors:
            raise OptionError(
                f"cpu={cpu!r:.60}: no processor of {self.triple}{closest(cpu, self.processors)}; "
                f"give {listed(self.processors)}"
            )
        features = self.processors[cpu]
        lanes = 16 if "avx512f" in features else 8 if "avx" in features.split(",") else 4
        from glow_nb.kernels.target import Target  # with LLVM, which a help text needs not

        return Target(self.triple, cpu, f"+{features.replace(',', ',+')}", lanes)


PLATFORMS: Mapping[str, Platform] = {
    platform.triple: platform
    for platform in (
        Platform("x86_64-unknown-linux-gnu", _X86, "x86_64-linux-gnu-gcc"),
        Platform("aarch64-unknown-linux-gnu", _ARM, "aarch64-linux-gnu-gcc"),
        Platform("riscv64-unknown-linux-gnu", _RISCV, "riscv64-linux-gnu-gcc"),
    )
}
"""The machines that bundles are made for, by their triples."""

NATIVE = "native"
"""What ``cpu`` calls the processor that compiles."""


def platform_of(triple: str) -> Platform:
    """Return the platform of *triple*; raise OptionError if it is unknown."""
    if not isinstance(triple, str) or triple not in PLATFORMS:
        raise OptionError(
            f"target={described(triple)}: unknown{closest(str(triple), PLATFORMS)}; bundles are "
            f"made for {listed(PLATFORMS)}"
        )
    return PLATFORMS[triple]


def platform_like(target: Target) -> Platform:
    """Return the platform that *target* is of, whose triple may name another vendor.

    Raises:
        UnsupportedError: Its machines have objects of another format.
    """
    architecture, *rest = target.triple.split("-")
    for platform in PLATFORMS.values():
        if platform.triple.startswith(f"{architecture}-") and "linux" in rest:
            return platform
    raise UnsupportedError(
        f"bundles are ELF objects, which machines of {target.triple} do not link; give target=, "
        f"one of {listed(PLATFORMS)}"
    )


def targets_of(triple: str | None, cpus: Sequence[str]) -> list[Target]:
    """Return the processors to compile for, in the order of *cpus*, each once.

    Args:
        triple: The kind of machine; None for this one.
        cpus: LLVM's names of processors; none for the one that can do the least.

    Raises:
        OptionError: A name is unknown.
        UnsupportedError: Several processors are named of a machine that cannot tell them apart.
    """
    from glow_nb.kernels.target import Target

    host = Target.host()
    platform = platform_of(triple) if triple is not None else platform_like(host)
    if not cpus:
        return [platform.baseline]
    for cpu in cpus:
        if cpu == NATIVE and triple not in (None, host.triple):
            raise OptionError(f"cpu={cpu!r}: this machine is not {platform.triple}; name one")
    cpus = list(dict.fromkeys(cpus))
    if len(cpus) > 1 and not platform.triple.startswith("x86_64"):
        raise UnsupportedError(
            f"cpu={listed(cpus)}: a bundle for {platform.triple} cannot ask which processor runs "
            "it; name one processor, or build several bundles"
        )
    return [host if cpu == NATIVE else platform.target(cpu) for cpu in cpus]
