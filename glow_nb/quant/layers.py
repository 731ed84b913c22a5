"""Which kernels of a float network and of one of integers do the same work.

The one network was made of the other, so that kernels of both know the imported nodes that they
compute. A layer is the least set of kernels of both that computes nodes which no other kernel does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from glow_nb.llir.program import Buffer, Program, Weight, mutated, read
from glow_nb.quant.schemas import KINDS

Names = tuple[str, ...]
"""The imported nodes that a kernel computes."""

Member = tuple[str, str | int]
"""A kernel, by its side and place, or a name."""

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Layer:
    """Kernels of both networks for the same nodes.

    Attributes:
        names: The nodes, in the order of the kernels of floats; of mere conversions, these.
        floats: The places of its kernels in the float network; none for mere conversions.
        integers: The places of its kernels in the quantized network.
    """

    names: Names
    floats: tuple[int, ...]
    integers: tuple[int, ...]


def match(
    floats: Sequence[Names], integers: Sequence[Names], links: Iterable[Iterable[int]] = ()
) -> list[Layer]:
    """Return the layers of two networks in the order of their kernels.

    Args:
        floats: The nodes of each kernel of the float network.
        integers: The integers of each kernel of the quantized network.
        links: Places of kernels of integers that belong together besides.
    """
    known = set(chain.from_iterable(floats))
    groups: list[list[Member]] = [[("integer", i) for i in link] for link in links]
    for side, kernels in (("float", floats), ("integer", integers)):
        for place, names in enumerate(kernels):
            groups.append([(side, place), *(("name", name) for name in names if name in known)])
    found = [_layer(members, floats, integers) for members in connected(groups)]
    return sorted(found, key=lambda layer: (layer.integers or layer.floats, layer.floats))


def _layer(members: Iterable[Member], floats: Sequence[Names], integers: Sequence[Names]) -> Layer:
    sides = {
        side: tuple(sorted(x for kind, x in members if kind == side and isinstance(x, int)))
        for side in ("float", "integer")
    }
    names = [name for i in sides["float"] for name in floats[i]]
    names = names or [name for i in sides["integer"] for name in integers[i]]
    return Layer(tuple(dict.fromkeys(names)), sides["float"], sides["integer"])


def byte_links(program: Program) -> list[list[int]]:
    """Return, for each tensor of quantized numbers of *program*, the places of what touches it."""
    found: dict[Buffer, list[int]] = {}
    for place, instruction in enumerate(program.work):
        for buffer in {b.root for b in (*read(instruction), *mutated(instruction))}:
            if buffer.type.kind in KINDS and not isinstance(buffer, Weight):
                found.setdefault(buffer, []).append(place)
    return list(found.values())


def connected(groups: Iterable[Sequence[T]]) -> list[list[T]]:
    """Return the unions of *groups* that share members, be it through other groups."""
    found: dict[T, list[T]] = {}
    for group in groups:
        unions = {id(found[member]): found[member] for member in group if member in found}
        union = max(unions.values(), key=len, default=[])
        others = (other for other in unions.values() if other is not union)
        for member in [*chain.from_iterable(others), *group]:
            if found.get(member) is not union:
                found[member] = union
                union.append(member)
    return list({id(union): union for union in found.values()}.values())
