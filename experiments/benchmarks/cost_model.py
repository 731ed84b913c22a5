"""How good is the estimate that decides how a convolution or a matrix product is computed?

All candidates of every product of the twins and of the encoders that are worth trying are measured,
as ``compile(tune=True)`` does it, and compared with the estimate in cycles. What counts is not
whether the estimate is right but whether it picks well: the last table says what its picks cost
over the best measured ones, for each network as a whole. A candidate may be the fastest by chance;
so it is measured once more beside the pick, and only the second measurement counts. So a figure may
be less than zero::

    python -m experiments.benchmarks.cost_model --output out
    python -m experiments.benchmarks.cost_model --only resnet50 bert_128 --threads 1 2
    python -m experiments.benchmarks.cost_model --output docs --data docs/measurements.json

writes ``cost_model.png``: measured over estimated time of each candidate, by measured time, with
the first number of threads. ``--data`` puts the table into the measurements. Measurements are
kept in the cache folder; measure on a quiet machine.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import glow_nb
from experiments.arguments import thread_count
from experiments.benchmarks.printing import processor
from experiments.benchmarks.results import record
from experiments.networks.transformers import NETWORKS
from experiments.networks.twins import NAMES, make_twin
from glow_nb.backends.cpu.algorithms import Candidate, Problem, algorithm_of
from glow_nb.backends.cpu.algorithms.candidates import candidates_for
from glow_nb.backends.cpu.products import PRODUCTS, Product, product_key
from glow_nb.backends.cpu.tune import MeasuringTuner
from glow_nb.base.quantities import count_of
from glow_nb.codegen.measure_limits import machine_limits
from glow_nb.kernels.target import Target
from glow_nb.network.pictures.style import INK, PALETTE, SUBTITLE, frame, own_style, plain_numbers

MARKS = "osDv"
FAMILIES = ("direct", "matrix product", "Winograd", "Strassen")
ENCODERS = ("encoder_64", "bert_128", "encoder_200", "vit_b16", "audio_encoder")
"""Networks of :mod:`experiments.networks.transformers` that are measured beside the twins."""

BAND = 1.25
"""The dashed lines of the picture: so many times too short or too long an estimate."""


@dataclass(frozen=True)
class Layer:
    """One product of a network, and all its equals.

    Attributes:
        network: Name of the network.
        key: The node as text.
        count: How often it occurs.
        times: Measured seconds by candidate, that with the least estimate first.
        repeated: Seconds of the pick and of the best candidate, measured once more; empty if it is
            one.
    """

    network: str
    key: str
    count: int
    times: dict[Candidate, float]
    repeated: dict[Candidate, float] = field(default_factory=dict)

    @property
    def pick(self) -> Candidate:
        """The candidate with the least estimate."""
        return next(iter(self.times))

    @property
    def best(self) -> Candidate:
        """The fastest candidate."""
        return min(self.times, key=lambda candidate: self.times[candidate])

    @property
    def picked_seconds(self) -> float:
        """What the picks of all these layers take."""
        return (self.repeated or self.times)[self.pick] * self.count

    @property
    def lost_seconds(self) -> float:
        """What the picks of all these layers take longer than the best; below zero by chance."""
        return self.picked_seconds - (self.repeated or self.times)[self.best] * self.count


def measure(network: str, target: Target, threads: int) -> list[Layer]:
    """Measure every product of *network* that has more than one candidate."""
    function = glow_nb.load(make_twin(network) if network in NAMES else NETWORKS[network]())
    nodes = [
        node
        for node in glow_nb.optimize(function)
        if isinstance(node, PRODUCTS) and not _is_alone(node, target)
    ]
    by_key = {product_key(node): node for node in nodes}
    counts = Counter(map(product_key, nodes))
    tuner = MeasuringTuner(target, threads)
    layers = [
        Layer(network, key, counts[key], found) for key, found in tuner.measure(nodes).items()
    ]
    for layer in layers:
        if layer.best != layer.pick:
            candidates = layer.pick, layer.best
            layer.repeated.update(tuner.measure_anew(by_key[layer.key], candidates, beside=nodes))
    return layers


def _is_alone(node: Product, target: Target) -> bool:
    """Return whether one algorithm computes *node* wherever it can."""
    first = candidates_for(Problem.of(node, target), target)[0]
    return algorithm_of(first.plan).is_exclusive


def family_of(layer: Layer, candidate: Candidate) -> str:
    """Return the family of *candidate*, one of :data:`FAMILIES`."""
    if candidate.plan.algorithm in ("strassen", "winograd"):
        return candidate.plan.algorithm.capitalize()
    return "direct" if layer.key.startswith("convolution") else "matrix product"


def cycles_per_second(target: Target, threads: int) -> float:
    """Return the cycles a second of one core, by the measured peak of multiply-adds."""
    flops = 2 * target.machine.fma_per_cycle * target.lanes / target.passes
    return machine_limits(threads, target).flop_rate / threads / flops


def report(layers: Sequence[Layer], worst: int) -> None:
    """Print the layers whose pick loses most."""
    for layer in sorted(layers, key=lambda layer: -layer.lost_seconds)[:worst]:
        if layer.lost_seconds > 0:
            print(
                f"{layer.network}: {1e6 * layer.lost_seconds:.0f} us lost, {layer.count} x "
                f"{layer.key}\n    picked {_describe(layer, layer.pick)}, "
                f"best {_describe(layer, layer.best)}"
            )


def excess_of(layers: Sequence[Layer]) -> float:
    """Return by how many percent the picks for all *layers* exceed the best candidates."""
    picked = sum(layer.picked_seconds for layer in layers)
    best = picked - sum(layer.lost_seconds for layer in layers)
    return 100 * (picked / best - 1)


def page(found: Mapping[int, Sequence[Layer]]) -> str:
    """Return the table: what the picks cost in each network, by the number of threads."""
    counts = [f"{threads} thread{'s' if threads > 1 else ''}" for threads in found]
    lines = [
        f"{processor()}; excess time of chosen plans over the fastest measured ones, in percent.",
        "",
    ]
    lines.append(f"| network | products | {' | '.join(counts)} |")
    lines.append("|---|---:|" + "---:|" * len(counts))
    first = next(iter(found.values()))
    for network in dict.fromkeys(layer.network for layer in first):
        mine = [[layer for layer in found[t] if layer.network == network] for t in found]
        cells = " | ".join(f"{excess_of(layers):.1f}" for layers in mine)
        lines.append(f"| {network} | {len(mine[0])} | {cells} |")
    return "\n".join(lines)


def _describe(layer: Layer, candidate: Candidate) -> str:
    return f"{candidate.plan} {1e6 * (layer.repeated or layer.times)[candidate]:.1f} us"


def draw(layers: Sequence[Layer], rate: float, path: Path) -> None:
    """Draw measured over estimated time of each candidate to the PNG file *path*."""
    with own_style():
        figure = Figure(figsize=(11, 6.2))
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        figure.subplots_adjust(left=0.075, right=0.975, top=0.85, bottom=0.1)
        ratios = _draw_points(axes, layers, rate)
        _draw_frame(axes, ratios)
        axes.legend(loc="lower right", fontsize=9, facecolor="white", edgecolor="none")
        networks = len({layer.network for layer in layers})
        near = sum(1 / BAND <= ratio <= BAND for ratio in ratios) / len(ratios)
        title = "How far the cost model is from the measured time"
        figure.text(0.075, 0.935, title, fontsize=15, fontweight="bold")
        figure.text(
            0.075, 0.885,
            f"Each dot is one plan of one product, of {networks} networks; {100 * near:.0f} % of "
            f"them lie between the dashed lines, where the estimate is off by a factor of {BAND:g}",
            fontsize=10, color=SUBTITLE,
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)


def _draw_points(axes: Axes, layers: Sequence[Layer], rate: float) -> list[float]:
    """Draw a dot for each candidate; return measured over estimated time of all."""
    ratios: list[float] = []
    for place, name in enumerate(FAMILIES):
        points = [
            (1e6 * seconds, seconds * rate / candidate.cycles)
            for layer in layers
            for candidate, seconds in layer.times.items()
            if family_of(layer, candidate) == name
        ]
        if points:
            xs, ys = zip(*points, strict=True)
            axes.scatter(xs, ys, s=20, alpha=0.65, color=PALETTE[place], marker=MARKS[place], lw=0,
                         label=f"{name}: {count_of(len(points), 'plan')}")  # fmt: skip
            ratios += ys
    return ratios


def _draw_frame(axes: Axes, ratios: Sequence[float]) -> None:
    """Draw the line of equal times and the band, name the axes, take away what frames nothing."""
    for ratio, style in ((1.0, "-"), (BAND, (0, (4, 4))), (1 / BAND, (0, (4, 4)))):
        axes.axhline(ratio, color=INK, linewidth=0.9, linestyle=style, zorder=0.5)
    limit = 1.1 * max(BAND, *ratios, *(1 / ratio for ratio in ratios))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(1 / limit, limit)
    ticks = [
        ratio for ratio in (0.25, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 4) if 1 / limit < ratio < limit
    ]
    axes.set_yticks(ticks, [f"{ratio:g}" for ratio in ticks])
    axes.set_yticks([], minor=True)
    plain_numbers(axes.xaxis)
    axes.set_xlabel("measured time, microseconds")
    axes.set_ylabel("measured time over estimated time")
    frame(axes)


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = (*NAMES, *ENCODERS)
    parser.add_argument("--only", nargs="+", choices=known, default=list(known))
    parser.add_argument("--threads", type=thread_count, nargs="+", default=[1])
    parser.add_argument("--worst", type=int, default=12, help="layers to list")
    parser.add_argument("--output", type=Path, default=Path("out"), help="folder for the picture")
    parser.add_argument("--data", type=Path, help="file of measurements")
    arguments = parser.parse_args()
    target = Target.host()
    found: dict[int, list[Layer]] = {}
    for threads in arguments.threads:
        found[threads] = []
        for network in arguments.only:
            layers = measure(network, target, threads)
            found[threads] += layers
            print(f"{network}, threads {threads}: {len(layers)} products", flush=True)
        report(found[threads], arguments.worst)
    table = page(found)
    print(table)
    if arguments.data:
        record(arguments.data, "cost model", table.splitlines())
    threads, layers = next(iter(found.items()))
    draw(layers, cycles_per_second(target, threads), arguments.output / "cost_model.png")


if __name__ == "__main__":
    main()
