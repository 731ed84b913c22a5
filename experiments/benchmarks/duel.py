"""How fast is glow_nb beside the engines people use?

The same ONNX model runs in several engines, each in a process of its own and asked in turn, see
``glow_nb.tools.duel``. The ratio is the best peer's shortest time over ours: above 1 we are faster.
Beside it stands the ratio of the median times. Without models it measures the twins of the nine
light models of the ``onnx`` package::

    python -m experiments.benchmarks.duel --threads 1
    python -m experiments.benchmarks.duel model.onnx --engines glow_nb onnxruntime --rounds 12

A peer that is not installed is left out, and the output says so. ``glow-nb bench`` is the same for
a model of one's own, with shapes to choose.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx

from experiments.networks.twins import NAMES, make_twin
from glow_nb.base.distance import largest_distance
from glow_nb.tools.duel.contest import Measurement, Ratios, duel, ratios_of
from glow_nb.tools.duel.engines import ENGINES
from glow_nb.tools.duel.feeds import random_feeds


def report(title: str, results: dict[str, Measurement]) -> None:
    """Print one line for each engine, and the ratios."""
    print(title)
    expected = next((result.outputs for result in results.values() if result.outputs), [])
    for name, result in results.items():
        if not result.times:
            print(f"  {name:12s} left out: {result.missing}")
            continue
        print(
            f"  {name:12s} first {result.first_seconds:7.2f} s"
            f"   min {result.min_seconds * 1e3:9.2f} ms"
            f"   median {result.median_seconds * 1e3:9.2f} ms"
            f"   runs {len(result.times):4d}"
            f"   difference {largest_distance(expected, result.outputs):.1e}"
        )
    ratios = ratios_of(results)
    if ratios is not None:
        print(f"  ratio {ratios.minima:.3f}   of medians {ratios.medians:.3f}", flush=True)


def _model_paths(models: Sequence[str], folder: Path, batch: int) -> list[str]:
    """Return *models*, or the twins of all light models, written into *folder*."""
    if models:
        return [str(Path(model).resolve()) for model in models]
    paths = [folder / f"{name}_b{batch}.onnx" for name in NAMES]
    for name, path in zip(NAMES, paths, strict=True):
        onnx.save(make_twin(name, batch), path)
    return [str(path) for path in paths]


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="*", help="ONNX files; without any, the nine twins")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1, help="images for each run of a twin")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each engine and round")
    return parser.parse_args()


def main() -> None:
    """Measure every model and print the geometric means of the ratios."""
    arguments = _parse_arguments()
    found: list[Ratios] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in _model_paths(arguments.model, Path(folder), arguments.batch):
            results = duel(
                path,
                random_feeds(onnx.load(path, load_external_data=False)),
                threads=arguments.threads,
                engines=arguments.engines,
                rounds=arguments.rounds,
                seconds=arguments.seconds,
            )
            report(f"{Path(path).name} threads={arguments.threads}", results)
            ratios = ratios_of(results)
            found += [] if ratios is None else [ratios]
    if len(found) > 1:
        minima, medians = map(statistics.geometric_mean, zip(*found, strict=True))
        means = f"ratio {minima:.3f}, of medians {medians:.3f}"
        print(f"geometric means over {len(found)} models: {means}")


if __name__ == "__main__":
    main()
