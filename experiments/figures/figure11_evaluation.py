"""How many images per second, on one core? The paper's evaluation (section 7, Figure 11) again.

The paper runs ResNet50 and VGG19 on one core with batches of 2, 4 and 8 against TensorFlow and TVM.
Here the peers are the engines that are installed, and the batches 1, 2, 4 and 8; the networks are
the twins, which have random weights. Each engine lives in a process of its own and is asked in
turn, and the shortest of its times counts. A line in the picture is what the measured peak of
fused multiply-adds would allow a convolution that does not save any multiplication::

    python -m experiments.figures.figure11_evaluation --output docs --data docs/measurements.json

writes ``figure11.png``, and puts the table into the measurements. It takes 6 to 10 minutes. With
``--results FILE`` measurements are kept: what is there is not repeated. ``--redraw`` draws the
table that is in the measurements, and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import glow_nb
from experiments.benchmarks.printing import TITLES, peers, processor
from experiments.benchmarks.results import read, record
from experiments.networks.twins import load_light, make_twin
from glow_nb.codegen.measure_limits import machine_limits
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.cost import total_cost
from glow_nb.network.pictures.style import (
    ENGINES as COLOURS,
)
from glow_nb.network.pictures.style import (
    INK,
    SUBTITLE,
    frame,
    ink_on,
    own_style,
    three_digits,
)
from glow_nb.tools.duel.contest import duel
from glow_nb.tools.duel.engines import ENGINES, OURS, is_installed
from glow_nb.tools.duel.feeds import random_feeds

NETWORKS = {"resnet50": "ResNet50", "vgg19": "VGG19"}
BATCHES = (1, 2, 4, 8)
TABLE = "figure 11"
PEAK = "all multiplications at the core's peak"
EXPLANATION = (
    "Dashed line: the images per second that the core's measured peak of fused multiply-adds "
    "allows if every multiplication of the convolutions is carried out.\n"
    "Winograd's algorithm computes 3 x 3 convolutions with fewer multiplications, so a bar that "
    "uses it may exceed the line."
)
ROUNDS = 3


@dataclass(frozen=True)
class Measurement:
    """Images per second of each engine on one network with one batch size, on one core."""

    network: str
    batch: int
    rates: dict[str, float]
    flops: float

    @property
    def ratio(self) -> float | None:
        """Our rate over that of the best peer; None if there is no peer."""
        peers = [rate for engine, rate in self.rates.items() if engine != OURS]
        return self.rates[OURS] / max(peers) if peers and OURS in self.rates else None


def measure(network: str, batch: int, folder: Path) -> Measurement:
    """Time all installed engines in turn; *folder* keeps the model."""
    path = folder / f"{network}_b{batch}.onnx"
    if not path.exists():
        onnx.save(make_twin(network, batch), path)
    light = onnx.load(path, load_external_data=False)
    function = glow_nb.load(light)
    results = duel(
        str(path),
        random_feeds(light),
        threads=1,
        engines=[engine for engine in ENGINES if is_installed(engine)],
        rounds=ROUNDS,
        seconds=1.0,
    )
    rates = {e: batch / result.min_seconds for e, result in results.items() if result.times}
    return Measurement(network, batch, rates, total_cost(function).flops / batch)


def load(path: Path | None) -> list[Measurement]:
    """Return the measurements kept in the file *path*, if there is one."""
    if path is None or not path.exists():
        return []
    return [Measurement(**entry) for entry in json.loads(path.read_text())]


def table(found: list[Measurement]) -> str:
    """Return the images per second as a table in Markdown."""
    engines = [engine for engine in ENGINES if any(engine in m.rates for m in found)]
    peers = "".join(f" {TITLES[engine]} |" for engine in engines if engine != OURS)
    lines = [
        f"| network | batch | glow_nb |{peers} over the better peer |",
        "|---|---:|" + "---:|" * (len(engines) + 1),
    ]
    for m in found:
        rates = "".join(f" {m.rates[e]:.2f} |" if e in m.rates else " |" for e in engines)
        ratio = "" if m.ratio is None else f"{m.ratio:.2f}"
        lines.append(f"| {NETWORKS[m.network]} | {m.batch} |{rates} {ratio} |")
    return "\n".join(lines) + "\n"


def conditions(peak: float) -> str:
    """Return a line about the machine, its *peak* of multiply-adds a second, and the versions."""
    return f"One core of {processor()}, float32, at most {peak / 1e9:.1f} GFLOP/s; {peers()}."


def recorded(data: Path) -> tuple[list[Measurement], float, str]:
    """Return what the file *data* holds: measurements, the core's peak, and the conditions."""
    tables = [table for part in read(data)["sections"] for table in part["tables"]]
    found = next(table for table in tables if table["name"] == TABLE)
    peak = re.search(r"at most ([\d.]+) GFLOP/s", found["measured"])
    if peak is None:
        raise SystemExit(f"{data}: the table {TABLE!r} does not say what the core does at most")
    engines = {title: engine for engine, title in TITLES.items()}
    networks = {title: network for network, title in NETWORKS.items()}
    flops = {name: total_cost(import_onnx(load_light(name))).flops for name in NETWORKS}
    measurements = []
    for row in found["rows"]:
        cells = dict(zip(found["columns"], row, strict=True))
        rates = {e: float(cells[t]) for t, e in engines.items() if cells.get(t)}
        network = networks[cells["network"]]
        measurements.append(Measurement(network, int(cells["batch"]), rates, flops[network]))
    said = f"{found['measured']} Recorded {found['recorded']}."
    return measurements, 1e9 * float(peak[1]), said


def draw(found: list[Measurement], peak: float, said: str, path: Path) -> None:
    """Draw the images per second as bars, a panel for each network, to the PNG file *path*.

    Args:
        found: What was measured.
        peak: Operations a second of the core at most.
        said: The conditions.
        path: The file.
    """
    with own_style():
        figure = Figure(figsize=(12, 5.6))
        FigureCanvasAgg(figure)
        names = [name for name in NETWORKS if any(m.network == name for m in found)]
        panels = figure.subplots(1, len(names), squeeze=False)[0]
        figure.subplots_adjust(left=0.055, right=0.985, top=0.735, bottom=0.18, wspace=0.13)
        for axes, name in zip(panels, names, strict=True):
            draw_panel(axes, [m for m in found if m.network == name], peak)
        panels[0].set_ylabel("images per second", fontsize=10)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="upper left", ncols=4, frameon=False, fontsize=10,
            bbox_to_anchor=(0.047, 0.875), borderaxespad=0,
        )  # fmt: skip
        figure.text(0.055, 0.945, "Images per second on one core", fontsize=16, fontweight="bold")
        said = f"After Figure 11 of the Glow paper. {said}"
        figure.text(0.055, 0.897, said, fontsize=9.5, color=SUBTITLE)
        figure.text(0.055, 0.035, EXPLANATION, fontsize=9.5, color=SUBTITLE, linespacing=1.5)
        figure.savefig(path, dpi=160)


def draw_panel(axes: Axes, found: list[Measurement], peak: float) -> None:
    """Draw one network: a group of bars for each batch size, a bar for each engine."""
    engines = [engine for engine in ENGINES if any(engine in m.rates for m in found)]
    width = 0.84 / len(engines)
    for place, engine in enumerate(engines):
        xs = [index + (place - (len(engines) - 1) / 2) * width for index in range(len(found))]
        heights = [m.rates.get(engine, 0.0) for m in found]
        bars = axes.bar(xs, heights, width * 0.92, color=COLOURS[engine], label=TITLES[engine])
        axes.bar_label(
            bars,
            labels=[three_digits(height) for height in heights],
            fontsize=8.5,
            padding=-13,
            color=ink_on(COLOURS[engine]),
            fontweight="bold" if engine == OURS else "normal",
        )
    direct = peak / found[0].flops
    axes.axhline(direct, color=INK, linewidth=1.1, linestyle=(0, (6, 3)), zorder=3, label=PEAK)
    axes.set_xticks(range(len(found)), [f"batch {m.batch}" for m in found])
    top = max(direct, *(max(m.rates.values()) for m in found))
    axes.set_ylim(0, top * 1.08)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title(NETWORKS[found[0].network], loc="left", fontsize=12, fontweight="bold")
    frame(axes, size=9.5)


def write(found: list[Measurement], output: Path, data: Path | None) -> None:
    """Write the picture to the folder *output* and the table into *data*; print it if None."""
    output.mkdir(parents=True, exist_ok=True)
    peak = machine_limits(1).flop_rate
    draw(found, peak, conditions(peak), output / "figure11.png")
    text = f"{conditions(peak)}\n\n{table(found)}"
    if data is None:
        print(text)
        return
    record(data, TABLE, text.splitlines())


def main() -> None:
    """Measure what is not measured yet, then write picture and table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("out"), help="folder for the picture")
    parser.add_argument("--data", type=Path, help="file of measurements")
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--batches", nargs="+", type=int, choices=BATCHES, default=list(BATCHES))
    parser.add_argument("--results", type=Path, help="JSON file that keeps the measurements")
    parser.add_argument("--twins", type=Path, help="folder that keeps the models")
    parser.add_argument("--redraw", action="store_true", help="draw the table of --data alone")
    arguments = parser.parse_args()
    if arguments.redraw:
        draw(*recorded(arguments.data), arguments.output / "figure11.png")
        return
    found = load(arguments.results)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.twins or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for network in arguments.only:
            for batch in arguments.batches:
                if any((m.network, m.batch) == (network, batch) for m in found):
                    continue
                found.append(measure(network, batch, folder))
                print(found[-1], flush=True)
                if arguments.results:
                    arguments.results.write_text(json.dumps([asdict(m) for m in found], indent=1))
                if not arguments.twins:
                    (folder / f"{network}_b{batch}.onnx").unlink()
    found.sort(key=lambda m: (list(NETWORKS).index(m.network), m.batch))
    write(found, arguments.output, arguments.data)


if __name__ == "__main__":
    main()
