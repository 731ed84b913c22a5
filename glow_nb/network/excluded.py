"""The names of ``FiniteCheck(exclude=...)``, which mean something in the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from glow_nb.base.errors import OptionError
from glow_nb.base.finite import FiniteCheck
from glow_nb.base.schema import closest
from glow_nb.llir import probes
from glow_nb.network import watched_model
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.watched_model import Source


@dataclass(frozen=True)
class KnownCheck:
    """A check, and the names that it excludes.

    Attributes:
        check: With the nodes that excluded values and nodes stand for, by which kernels are known.
        names: The names of the model.
        unknown: Excluded names that the model does not have; passes may have made nodes of them.
    """

    check: FiniteCheck
    names: Mapping[str, tuple[str, ...]]
    unknown: frozenset[str]

    @classmethod
    def of(cls, check: FiniteCheck, source: Source) -> KnownCheck:
        """Return *check* of the model *source*."""
        names = watched_model.named_nodes(source) if check.exclude else {}
        excluded = frozenset(check.exclude)
        nodes = {node for name in excluded for node in names.get(name, ())}
        return cls(replace(check, exclude=[*excluded, *nodes]), names, excluded - names.keys())

    def require_known(self, networks: Iterable[CompiledNetwork]) -> None:
        """Raise OptionError for an excluded name that neither the model nor its *networks* have.

        The check itself tells names of these, of kernels that stand for no node of the model.
        """
        if not self.unknown:
            return
        programs = [program for network in networks for program in _programs_of(network)]
        made = {name for one in programs for name in probes.named_nodes(one.program)}
        wrong = sorted(self.unknown - made)
        if wrong:
            near = ", ".join(f"{name!r}{closest(name, self.names)}" for name in wrong[:5])
            raise OptionError(
                f"check_finite: exclude has names that the model does not have: {near}; give names "
                "of its inputs, states, constants, nodes or values"
            )


def _programs_of(network: CompiledNetwork) -> list[CompiledNetwork]:
    """Return *network*, or the programs of its stages."""
    if not network.stages:
        return [network]
    return [program for stage in network.stages for program in stage.programs()[1]]
