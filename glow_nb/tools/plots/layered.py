"""Where the boxes of a drawn graph go: in layers, sources above (after Sugiyama et al., 1981).

Each box gets a layer below all that it reads; edges over several layers get a bend in each. The
boxes of a layer are ordered by the mean place of their neighbours, which keeps edges from crossing,
and are then moved as near to below their neighbours as their order and their widths allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Key = Any  # whatever may be the key of a dict
Point = tuple[float, float]

SWEEPS = 24
GAP = 22.0
"""Points between two boxes of a layer."""
BEND_WIDTH = 8.0
LIGHT, HEAVY = 0.05, 8.0
"""How much an edge pulls that comes from a box which nothing runs into, and one between two bends:
the flow of the graph decides where boxes are, and long edges are straight."""


@dataclass(frozen=True)
class Layout:
    """Places in points, y growing downwards; the boxes of a layer stand on one line.

    Attributes:
        centres: Of each box.
        bends: Between the ends of each edge, from its source to its target.
        width: Of the whole drawing.
        height: Of the whole drawing.
    """

    centres: dict[Key, Point]
    bends: dict[tuple[Key, Key], list[Point]]
    width: float
    height: float


def lay_out(
    sizes: Mapping[Key, tuple[float, float]],
    edges: Sequence[tuple[Key, Key]],
    *,
    layer_gap: float = 34.0,
) -> Layout:
    """Return places for boxes of *sizes* (width, height) with directed *edges* and no cycle.

    Boxes are given in an order in which each comes after those that it has edges from.
    """
    layers = _layers(list(sizes), edges)
    chains = {edge: _chain(edge, layers) for edge in dict.fromkeys(edges)}
    widths = {key: width for key, (width, _) in sizes.items()}
    rows: list[list[Key]] = [[] for _ in range(max(layers.values(), default=0) + 1)]
    for key in sizes:
        rows[layers[key]].append(key)
    for chain in chains.values():
        for layer, bend in enumerate(chain[1:-1], start=layers[chain[0]] + 1):
            rows[layer].append(bend)
            widths[bend] = BEND_WIDTH
    links = [pair for chain in chains.values() for pair in pairwise(chain)]
    above, below = _neighbours(links)
    _order(rows, above, below)
    places = _place(rows, widths, above, below)
    bottoms: list[float] = []
    height = 0.0
    for row in rows:
        height += max((sizes[key][1] for key in row if key in sizes), default=0.0)
        bottoms.append(height)
        height += layer_gap
    left = min((places[k] - widths[k] / 2 for k in places), default=0.0)
    right = max((places[k] + widths[k] / 2 for k in places), default=0.0)
    points = {k: (places[k] - left, bottoms[i]) for i, row in enumerate(rows) for k in row}
    return Layout(
        centres={k: (points[k][0], points[k][1] - tall / 2) for k, (_, tall) in sizes.items()},
        bends={edge: [points[k] for k in chain[1:-1]] for edge, chain in chains.items()},
        width=right - left,
        height=max(height - layer_gap, 0.0),
    )


@dataclass(frozen=True)
class _Bend:
    """Where an edge passes a layer."""

    edge: tuple[Key, Key]
    layer: int


def _layers(keys: Sequence[Key], edges: Sequence[tuple[Key, Key]]) -> dict[Key, int]:
    """Return the layer of each box; what reads nothing stands right above its first reader."""
    sources: dict[Key, list[Key]] = {key: [] for key in keys}
    targets: dict[Key, list[Key]] = {key: [] for key in keys}
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    layers: dict[Key, int] = {}
    for key in keys:
        layers[key] = max((layers[s] + 1 for s in sources[key]), default=0)
    for key in keys:
        if not sources[key] and targets[key]:
            layers[key] = min(layers[t] for t in targets[key]) - 1
    first = min(layers.values(), default=0)
    return {key: layer - first for key, layer in layers.items()}


def _chain(edge: tuple[Key, Key], layers: Mapping[Key, int]) -> list[Key]:
    """Return the ends of *edge* with a bend for each layer between them."""
    source, target = edge
    between = range(layers[source] + 1, layers[target])
    return [source, *(_Bend(edge, layer) for layer in between), target]


Neighbours = dict[Key, list[Key]]


def _neighbours(links: Sequence[tuple[Key, Key]]) -> tuple[Neighbours, Neighbours]:
    above: Neighbours = {}
    below: Neighbours = {}
    for source, target in links:
        above.setdefault(target, []).append(source)
        below.setdefault(source, []).append(target)
    return above, below


def _order(rows: list[list[Key]], above: Neighbours, below: Neighbours) -> None:
    """Sort each row so that few edges cross: sweep down and up, keep the best order."""
    best = [list(row) for row in rows]
    fewest = _crossings(rows, below)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for index in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            fixed = rows[index - 1 if down else index + 1]
            place = {key: number for number, key in enumerate(fixed)}
            _sort_by_mean(rows[index], place, above if down else below)
        crossings = _crossings(rows, below)
        if crossings < fewest:
            fewest, best = crossings, [list(row) for row in rows]
    rows[:] = best


def _sort_by_mean(row: list[Key], place: Mapping[Key, int], neighbours: Neighbours) -> None:
    means: dict[Key, float] = {}
    for number, key in enumerate(row):
        places = [place[n] for n in neighbours.get(key, ()) if n in place]
        means[key] = sum(places) / len(places) if places else number
    row.sort(key=lambda key: means[key])


def _crossings(rows: Sequence[Sequence[Key]], below: Neighbours) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        place = {key: number for number, key in enumerate(lower)}
        ends = [sorted(place[t] for t in below.get(key, ()) if t in place) for key in upper]
        for index, first in enumerate(ends):
            for second in ends[index + 1 :]:
                count += sum(a > b for a in first for b in second)
    return count


def _place(
    rows: Sequence[Sequence[Key]],
    widths: Mapping[Key, float],
    above: Neighbours,
    below: Neighbours,
) -> dict[Key, float]:
    """Return the centre of each box along its row."""
    places: dict[Key, float] = {}
    for row in rows:
        for key, offset in zip(row, _offsets(row, widths), strict=True):
            places[key] = offset - _offsets(row, widths)[-1] / 2
    for sweep in range(2 * SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            neighbours = {k: [*above.get(k, ()), *below.get(k, ())] for k in row}
            wanted, weights = [], []
            for key in row:
                shares = [(places[n], _pull(n, key, above)) for n in neighbours[key]]
                total = sum(weight for _, weight in shares)
                mean = sum(x * weight for x, weight in shares) / total if total else places[key]
                wanted.append(mean)
                weights.append(total * (1.0 if above.get(key) else LIGHT) or LIGHT)
            offsets = _offsets(row, widths)
            targets = [want - offset for want, offset in zip(wanted, offsets, strict=True)]
            fitted = isotonic(targets, weights)
            places.update(
                (key, fit + offset) for key, fit, offset in zip(row, fitted, offsets, strict=True)
            )
    return places


def _pull(neighbour: Key, key: Key, above: Neighbours) -> float:
    if not above.get(neighbour):
        return LIGHT
    return HEAVY if _is_bend(neighbour) and _is_bend(key) else 1.0


def _is_bend(key: Key) -> bool:
    return isinstance(key, _Bend)


def _offsets(row: Sequence[Key], widths: Mapping[Key, float]) -> list[float]:
    """Return the least distance of each centre from the first one's."""
    offsets: list[float] = []
    for index, key in enumerate(row):
        apart = (widths[row[index - 1]] + widths[key]) / 2 + GAP if index else 0.0
        offsets.append((offsets[-1] if offsets else 0.0) + apart)
    return offsets


def isotonic(targets: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the non-decreasing numbers that are nearest to *targets* in weighted squares.

    Neighbours that are in the wrong order are pooled into their mean until none is.
    """
    pools: list[tuple[float, float, int]] = []
    for target, weight in zip(targets, weights, strict=True):
        pools.append((target, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (left, left_weight, left_count), (right, right_weight, right_count) = pools[-2:]
            weight = left_weight + right_weight
            mean = (left * left_weight + right * right_weight) / weight
            pools[-2:] = [(mean, weight, left_count + right_count)]
    return [mean for mean, _, count in pools for _ in range(count)]
