"""How fast is glow_nb beside the engines people use?

The same ONNX model runs in several engines, each in a process of its own and asked in turn, see
``glow_nb.tools.duel``. The ratio is the best peer's shortest time over ours, where both compute in
the same kind of floats: above 1 we are faster. Beside it stands the ratio of the median times.
Without models it measures the twins of the nine light models of the ``onnx`` package::

    python -m experiments.benchmarks.duel --threads 1
    python -m experiments.benchmarks.duel model.onnx --engines glow_nb onnxruntime --rounds 12
    python -m experiments.benchmarks.duel model.onnx --precision float32 bfloat16 default

With ``--precision default`` engines are compared with their default settings, whatever they compute
in. Errors are root mean squares of the differences from the same model in float64, over that of its
outputs; where float64 would take too long, from ours in float32.

A peer that is not installed is left out, and the output says so. ``glow-nb bench`` is the same for
a model of one's own, with shapes to choose.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx

from experiments.arguments import thread_count
from experiments.networks.twins import NAMES, make_twin
from glow_nb.base.distance import relative_error
from glow_nb.base.precision import FULL
from glow_nb.commands.bench_report import no_precision_texts, precision_text
from glow_nb.tools.duel.contest import Measurement, Ratios, duel, ratios_of
from glow_nb.tools.duel.engines import ENGINES, PRECISIONS
from glow_nb.tools.duel.entrants import entrants_of
from glow_nb.tools.duel.feeds import random_feeds
from glow_nb.tools.duel.reference import Reference, reference_of


def report(
    title: str,
    results: Mapping[str, Measurement],
    engines: Sequence[str],
    precisions: Sequence[str],
    reference: Reference,
) -> dict[str, Ratios]:
    """Print one line for each engine and precision, and the ratios; return these by precision."""
    print(f"{title}, errors from {reference.name}")
    entrants = entrants_of(engines, precisions)
    for name, result in results.items():
        asked = precision_text(entrants[name].precision, result.computes)
        label = f"{entrants[name].engine:12s} {asked:18s}"
        if not result.times:
            print(f"  {label} left out: {result.missing}")
            continue
        print(
            f"  {label} first {result.first_seconds:7.2f} s"
            f"   min {result.min_seconds * 1e3:9.2f} ms"
            f"   median {result.median_seconds * 1e3:9.2f} ms"
            f"   runs {len(result.times):4d}"
            f"   error {relative_error(reference.outputs, result.outputs):.1e}"
        )
    for line in no_precision_texts(engines, precisions):
        print(f"  {line}")
    found = {precision: ratios_of(results, precision) for precision in precisions}
    ratios = {precision: ratio for precision, ratio in found.items() if ratio is not None}
    for precision, ratio in ratios.items():
        print(
            f"  {precision}: ratio {ratio.minima:.3f}   of medians {ratio.medians:.3f}", flush=True
        )
    return ratios


def _model_paths(models: Sequence[str], folder: Path, batch: int) -> list[str]:
    """Return *models*, or the twins of all light models, written into *folder*."""
    if models:
        return [str(Path(model).resolve()) for model in models]
    paths = [folder / f"{name}_b{batch}.onnx" for name in NAMES]
    for name, path in zip(NAMES, paths, strict=True):
        onnx.save(make_twin(name, batch), path)
    return [str(path) for path in paths]


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="*", help="ONNX files; without any, the nine twins")
    parser.add_argument("--threads", type=thread_count, default=1)
    parser.add_argument("--batch", type=int, default=1, help="images for each run of a twin")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=(FULL,))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each engine and round")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every model and print the geometric means of the ratios."""
    given = _parse_arguments(arguments)
    found: defaultdict[str, list[Ratios]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for path in _model_paths(given.model, Path(folder), given.batch):
            feeds = random_feeds(onnx.load(path, load_external_data=False))
            results = duel(
                path,
                feeds,
                threads=given.threads,
                engines=given.engines,
                precisions=given.precision,
                rounds=given.rounds,
                seconds=given.seconds,
            )
            reference = reference_of(path, feeds, results, threads=given.threads)
            title = f"{Path(path).name} threads={given.threads}"
            ratios = report(title, results, given.engines, given.precision, reference)
            for precision, ratio in ratios.items():
                found[precision].append(ratio)
    for precision, several in found.items():
        if len(several) > 1:
            minima, medians = map(statistics.geometric_mean, zip(*several, strict=True))
            means = f"ratio {minima:.3f}, of medians {medians:.3f}"
            print(f"geometric means over {len(several)} models in {precision}: {means}")


if __name__ == "__main__":
    main()
