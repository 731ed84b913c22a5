"""Which part of the roofline's speed each kernel of a network reaches, by a profile of it.

The estimate of :mod:`glow_nb.runtime.planning.costs` is that of a perfect kernel. The time of a
real one over the estimate for the machine that it was measured on is much the same on machines of
other rates, so that one profile serves for devices of all speeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from glow_nb.base.arguments import described
from glow_nb.base.costs import InstructionCost
from glow_nb.base.errors import OptionError
from glow_nb.llir.cost import instruction_cost
from glow_nb.llir.program import Instruction
from glow_nb.network.profile import KernelTime, Profile
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.costs import KernelWork

_Key = tuple[str, tuple[str, ...], InstructionCost]
"""Operator, nodes of the model, cost: what is the same for a kernel wherever its memory lies."""


@dataclass(frozen=True)
class Efficiencies:
    """Part of the roofline's speed by kernel; more than 1 where what is read lies in a cache.

    Attributes:
        known: The efficiency of kernels that were measured.
        of_others: The efficiency of all other kernels.
    """

    known: Mapping[_Key, float] = field(default_factory=dict)
    of_others: float = 1.0

    def work_of(self, instruction: Instruction) -> KernelWork:
        """Return what the kernel of *instruction* does."""
        key = _key_of(instruction)
        *_, cost = key
        return KernelWork(cost, self.known.get(key, self.of_others))

    def require_known(self, instructions: Iterable[Instruction]) -> None:
        """Raise OptionError if none of *instructions* was measured, but something else was."""
        keys = set(map(_key_of, instructions)) if self.known else set()
        if keys and keys.isdisjoint(self.known):
            raise OptionError(
                "profile: it has none of the kernels to be planned; profile the same network, "
                "compiled for as many threads as the fastest device has cores"
            )


UNMEASURED = Efficiencies()
"""Every kernel takes as long as the roofline says."""


def efficiencies(profile: Profile) -> Efficiencies:
    """Return what *profile* shows; kernels that it does not have are as good as all together.

    Raises:
        OptionError: It is no profile, or was made without limits of the machine.
    """
    if not isinstance(profile, Profile):
        raise OptionError(f"profile={described(profile)}: give what net.profile(feeds) returns")
    if profile.limits is None:
        raise OptionError("profile: it was made with limits=False; make it with limits=True")
    machine = DeviceDescription(
        "measured",
        multiply_adds_per_second=profile.limits.flop_rate / 2,
        memory_bytes_per_second=profile.limits.levels[-1].read_rate,
    )
    kernels: dict[_Key, list[KernelTime]] = {}
    for kernel in profile.kernels:
        report = kernel.report
        kernels.setdefault((report.opcode, report.origins, report.cost), []).append(kernel)
    known = {key: _efficiency(found, machine) for key, found in kernels.items()}
    return Efficiencies(known, _efficiency(profile.kernels, machine))


def _key_of(instruction: Instruction) -> _Key:
    return instruction.opcode, instruction.imported_names, instruction_cost(instruction)


def _efficiency(kernels: Iterable[KernelTime], machine: DeviceDescription) -> float:
    """Return the estimated time of *kernels* over the one that was measured; 1 if none took any."""
    kernels = list(kernels)
    estimated = sum(KernelWork(kernel.cost).seconds(machine) for kernel in kernels)
    taken = sum(kernel.median_seconds for kernel in kernels)
    return estimated / taken if taken else 1.0
