"""The layers whose weights may take more memory: the option ``constant_growth``.

Sums of weights that Winograd's and Strassen's algorithms multiply are more than the weights. A
network may keep so many of them that its constants take ``constant_growth`` times the bytes of its
weights. The room is spent where it saves the most estimated cycles a byte, over the whole network:
all layers begin with an algorithm that keeps the size of weights; then the best step to a larger
form is taken, again and again, until no step fits.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from typing_extensions import override

from glow_nb.backends.cpu.algorithms import Candidate, algorithm_of
from glow_nb.backends.cpu.products import Product
from glow_nb.base.plan import Plan
from glow_nb.base.quantities import byte_count
from glow_nb.base.table import Table
from glow_nb.hlir.graph import Constant, Function, Value
from glow_nb.hlir.ops import Convolution


@dataclass(frozen=True)
class Layer:
    """A layer whose preferred algorithm takes more memory than its weights do.

    Attributes:
        names: Its name, and those of others that share its weights and candidates.
        candidates: The plans that are right for its weights, the preferred one first. At least one
            of them takes no more memory.
        cycles: The estimated cycles of a run with each of them.
        more_bytes: The bytes of the constants of each, less those of the weights.
    """

    names: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    cycles: tuple[float, ...]
    more_bytes: tuple[int, ...]

    @property
    def costs(self) -> list[float]:
        """The cycles, where what is preferred less is never faster: it rounds more, for example."""
        return list(accumulate(self.cycles, max))

    @property
    def smallest(self) -> int:
        """The number of the first candidate that takes the least memory."""
        return self.more_bytes.index(min(self.more_bytes))


@dataclass(frozen=True)
class Spending:
    """What the room for larger constants is spent on.

    Attributes:
        room: Bytes that constants may take beyond the weights.
        layers: The layers that would use some of it.
        chosen: The number of the candidate of each.
    """

    room: float
    layers: tuple[Layer, ...]
    chosen: tuple[int, ...]

    @property
    def spent(self) -> int:
        """Bytes of the room that are taken."""
        return sum(e.more_bytes[c] for e, c in zip(self.layers, self.chosen, strict=True))

    @cached_property
    def _candidates(self) -> dict[str, Sequence[Candidate]]:
        """The candidates of each layer by its name, up to the one that is chosen."""
        return {
            name: layer.candidates[: number + 1]
            for layer, number in zip(self.layers, self.chosen, strict=True)
            for name in layer.names
        }

    def candidate(self, node: Product) -> Candidate | None:
        """Return what is chosen for *node*, None if it takes no room in any case."""
        found = self._candidates.get(node.name)
        return found[-1] if found else None

    def refuses(self, node: Product, candidate: Candidate) -> bool:
        """Return whether *candidate* is preferred for *node* to what is chosen: it does not fit."""
        preferred = self._candidates.get(node.name, ())[:-1]
        return any(candidate.plan == each.plan for each in preferred)

    @override
    def __str__(self) -> str:
        rows = tuple(
            (
                layer.names[0],
                byte_count(layer.more_bytes[number]),
                byte_count(layer.more_bytes[0]),
                f"{layer.cycles[number]:.3g}",
                f"{layer.cycles[layer.smallest]:.3g}",
            )
            for layer, number in zip(self.layers, self.chosen, strict=True)
        )
        table = Table(("layer", "#larger by", "#of", "#cycles", "#in the least memory"), rows)
        room = "no limit" if math.isinf(self.room) else byte_count(max(0, self.room))
        return f"{table}\n{byte_count(self.spent)} are taken; {room} could be"


def within(room: float, layers: Sequence[Layer]) -> Spending:
    """Choose a candidate of each of *layers*, so that all together take at most *room* bytes more.

    Where nothing fits, a layer takes the least it can.
    """
    wanted = sum(layer.more_bytes[0] for layer in layers)
    if wanted <= room:
        return Spending(room, tuple(layers), (0,) * len(layers))
    chosen = [layer.smallest for layer in layers]
    left = room - sum(each.more_bytes[each.smallest] for each in layers)
    tried: list[set[int]] = [set() for _ in layers]
    steps: list[tuple[float, int, int]] = []

    def add_step(number: int) -> None:
        step = _best_step(layers[number], chosen[number], tried[number])
        if step is not None:
            heapq.heappush(steps, (-step[0], number, step[1]))

    for number in range(len(layers)):
        add_step(number)
    while steps:
        _, number, candidate = heapq.heappop(steps)
        sizes = layers[number].more_bytes
        more = sizes[candidate] - sizes[chosen[number]]
        tried[number].add(candidate)
        if more <= left:
            chosen[number] = candidate
            left -= more
        add_step(number)
    return Spending(room, tuple(layers), tuple(chosen))


def _best_step(layer: Layer, chosen: int, tried: set[int]) -> tuple[float, int] | None:
    """Return the cycles saved a byte, and the candidate, of the best step from the one *chosen*."""
    costs, best = layer.costs, None
    for number in range(chosen):
        more = layer.more_bytes[number] - layer.more_bytes[chosen]
        saved = costs[chosen] - costs[number]
        if number in tried:
            continue
        rate = saved / more if more > 0 else math.inf
        if best is None or rate > best[0]:
            best = rate, number
    return best


Ranking = Callable[[Product], Sequence[Candidate]]
"""Returns the candidates of a product, the best first."""


def spend(
    function: Function,
    products: Sequence[Product],
    ranked: Ranking,
    preferred: Callable[[Product], Candidate | None],
    *,
    growth: float,
    threads: int,
) -> Spending:
    """Choose candidates for those of *products* whose preferred one takes more memory.

    Args:
        function: The network.
        products: Its convolutions and matrix products.
        ranked: Tells the candidates of each.
        preferred: Tells the best one that is right for the weights of a product.
        growth: The most bytes of constants, as a multiple of the bytes of the weights.
        threads: Cores that share the work.
    """
    packed: dict[tuple[Value, tuple[Candidate | None, ...]], list[Product]] = defaultdict(list)
    for node in products:
        if isinstance(node.factors[1], Constant):
            packed[node.factors[1], (preferred(node), *ranked(node))].append(node)
    larger: list[Layer] = []
    for (_, (first, *others)), nodes in packed.items():
        if first is not None and algorithm_of(first.plan).more_bytes(first.plan, nodes[0]) > 0:
            candidates = [each for each in (first, *others) if each is not None]
            larger.append(_layer(nodes, _right_ones(nodes[0], candidates), threads))
    return within(room_of(function, list(packed.values()), growth), larger)


def _right_ones(node: Product, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those of *candidates* that are right for the weights of *node*, each plan once.

    Weights of floats that are right for one plan of an algorithm are right for all; they are looked
    at once.
    """
    known: dict[str, bool] = {}
    found: dict[Plan, Candidate] = {}
    for each in candidates:
        name = each.plan.algorithm
        if name not in known:
            known[name] = algorithm_of(each.plan).for_weights(each, node) is not None
        if known[name]:
            found.setdefault(each.plan, each)
    return list(found.values())


def _layer(nodes: Sequence[Product], candidates: Sequence[Candidate], threads: int) -> Layer:
    """Return the layer that *nodes* are, which share weights and *candidates*.

    Cycles are those of the share of one of the *threads*.
    """
    node, runs = nodes[0], len(nodes)
    share = runs if isinstance(node, Convolution) else runs / threads
    return Layer(
        tuple(each.name for each in nodes),
        tuple(candidates),
        tuple(share * each.cycles for each in candidates),
        tuple(algorithm_of(each.plan).more_bytes(each.plan, node) for each in candidates),
    )


def room_of(function: Function, packed: Sequence[Sequence[Product]], growth: float) -> float:
    """Return the bytes that constants of *function* may take beyond those that keep their size.

    Weights are packed once for each of the layers *packed*, and stay as they are if anything else
    reads them: what these copies take is no room.
    """
    weights = sum(constant.type.size_bytes for constant in function.constants)
    forms, uses = Counter[Value](), Counter[Value]()
    for nodes in packed:
        matrix = nodes[0].factors[1]
        forms[matrix] += 1
        uses[matrix] += len(nodes)
    copies = sum(
        (forms[matrix] - (count == function.use_counts[matrix])) * matrix.type.size_bytes
        for matrix, count in uses.items()
    )
    return growth * weights - weights - copies if weights else 0.0
