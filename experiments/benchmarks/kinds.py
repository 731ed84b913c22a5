"""Which kinds of layers are slower than in the peers, or slow to compile?

Models of one layer or one block are drawn at random, some of each kind
(``experiments/networks/drawn/``), and run in ONNX Runtime, OpenVINO and here with one thread, in
turn. The ratio is the best peer's least processor time over ours; kinds have the geometric mean of
their models::

    python -m experiments.benchmarks.kinds --models 4 --output kinds.json
    python -m experiments.benchmarks.kinds --only top_few top_one --models 8 --seed 2
    python -m experiments.benchmarks.kinds --table kinds.json --data docs/measurements.json

The second form is for work on a kind: a model depends on kind, seed and number alone. The last one
puts the table of a file into the measurements.

All engines are in this process, other than in a duel: to start three processes for each of hundreds
of small models would take most of the time. With one thread an engine that does not run takes no
processor time, so that the clock of the process is that of the engine whose turn it is. Processor
time is what other work on the machine changes least. Results are to be those of a peer, within a
tolerance: ONNX Runtime rounds operands to integers where weights are integers. Kernels are compiled
in this process, into an empty cache, so that the clock counts that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from experiments.benchmarks.printing import peers, processor
from experiments.benchmarks.results import record
from experiments.benchmarks.timing import Run, times_for
from experiments.networks.drawn import KINDS, Drawn, draw
from glow_nb.base.distance import distance
from glow_nb.base.errors import GlowError, UnsupportedError
from glow_nb.base.foreign import foreign
from glow_nb.base.types import Array
from glow_nb.codegen.pool import WORKERS_VARIABLE
from glow_nb.network.saved.kept import NETWORKS_VARIABLE
from glow_nb.system.cache_folder import CACHE_VARIABLE
from glow_nb.tools.duel.contest import Measurement, ratios_of
from glow_nb.tools.duel.engines import ENGINES, OURS, Runner, is_installed, open_engine

TOLERANCES = {"float64": 1e-9, "float32": 5e-4, "float16": 5e-3, "int8": 1 / 60, "uint8": 1 / 60}
"""How far results may be apart, as a part of the largest number; other kinds are to be equal."""

STEPS_SECONDS = 0.001
"""The clock of a process may be off by some microseconds, even from core to core: times are of
runs that take longer."""

SLOW = 0.9
"""Models with a lower ratio are named one by one."""

Row = dict[str, Any]
"""What was found of one model."""


def open_all(
    drawn: Drawn, engines: Sequence[str]
) -> tuple[dict[str, Measurement], dict[str, Runner]]:
    """Return what the first run of each engine showed, in processor time, and those that ran."""
    results = {name: Measurement() for name in engines}
    runners: dict[str, Runner] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(drawn.model, path)
        for name, result in results.items():
            if not is_installed(name):
                result.missing = "it is not installed"
                continue
            began = time.process_time()
            try:
                with foreign(UnsupportedError, name):
                    run = open_engine(name, str(path), 1)
                    result.outputs = [np.asarray(each) for each in run(drawn.feeds)]
            except GlowError as error:
                result.missing = str(error)
            else:
                result.first_seconds = time.process_time() - began
                runners[name] = run
    return results, runners


def measure(
    drawn: Drawn, engines: Sequence[str], rounds: int, seconds: float
) -> dict[str, Measurement]:
    """Return what *engines* show on a model, in *rounds* in which each has *seconds*."""
    results, runners = open_all(drawn, engines)
    runs = {name: partial(run, drawn.feeds) for name, run in runners.items()}
    counts = {name: _runs_of_a_time(run) for name, run in runs.items()}
    for _ in range(rounds):
        for name, run in runs.items():
            found = times_for(partial(_repeat, run, counts[name]), seconds, time.process_time)
            results[name].times += [each / counts[name] for each in found]
    return results


def _runs_of_a_time(run: Run) -> int:
    """Return how many times to run at a time, such that the steps of the clock are small."""
    return 1 + int(STEPS_SECONDS / min(times_for(run, STEPS_SECONDS)))


def _repeat(run: Run, count: int) -> None:
    for _ in range(count):
        run()


def differs(expected: Sequence[Array], found: Sequence[Array]) -> float:
    """Return how far results are apart, as multiples of what the kinds of their numbers allow."""
    if len(expected) != len(found):
        return np.inf
    return max(map(_difference, expected, found), default=0.0)


def _difference(expected: Array, found: Array) -> float:
    if expected.dtype != found.dtype:
        return np.inf
    least = TOLERANCES.get(str(expected.dtype), 0.0)
    apart = distance(expected, found)
    return apart / least if least else (np.inf if apart else 0.0)


def row_of(kind: str, index: int, drawn: Drawn, results: dict[str, Measurement]) -> Row:
    """Return what a file keeps of one model."""
    ratios = ratios_of(results)
    ran = {name: result for name, result in results.items() if result.times}
    others = [result.outputs for name, result in ran.items() if name != OURS]
    ours = ran[OURS].outputs if OURS in ran else None
    apart = min((differs(other, ours) for other in others if ours is not None), default=None)
    return {
        "kind": kind,
        "index": index,
        "model": drawn.says,
        "ratio": ratios and round(ratios.minima, 4),
        "seconds": {name: result.min_seconds for name, result in ran.items()},
        "first_seconds": {name: result.first_seconds for name, result in ran.items()},
        "missing": {name: r.missing for name, r in results.items() if name not in ran},
        "difference": apart if apart is None or np.isfinite(apart) else "infinite",
    }


def is_wrong(row: Row) -> bool:
    """Return whether our results are not those of a peer."""
    apart = row["difference"]
    return apart is not None and (isinstance(apart, str) or apart > 1)


def line_of(row: Row) -> str:
    """Return what is printed of a model."""
    times = ", ".join(f"{name} {1e6 * found:.1f}" for name, found in row["seconds"].items())
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
    said = "  WRONG" if is_wrong(row) else ""
    ours = row["missing"].get(OURS, "")
    return f"{ratio:>6s} {row['kind']}:{row['index']} us: {times}{said} {ours} {row['model']}"


def table(data: dict[str, Any]) -> str:
    """Return the kinds of *data* as a table in Markdown, the slowest first."""
    rows: list[Row] = data["rows"]
    found = [row["ratio"] for row in rows if row["ratio"] is not None]
    if not found:
        return f"{data['measured']} No model ran here and in a peer."
    kinds = {row["kind"] for row in rows}
    compiling = [row["first_seconds"][OURS] for row in rows if OURS in row["first_seconds"]]
    said = (
        f"{data['measured']} {len(found)} models of {len(kinds)} kinds, seed "
        f"{data['seed']}: geometric mean {statistics.geometric_mean(found):.2f}, "
        f"{sum(ratio >= 1 for ratio in found)} at 1 or above, "
        f"{sum(ratio < SLOW for ratio in found)} below {SLOW}, worst {min(found):.2f}; "
        f"{sum(compiling):.0f} s of processor time to compile them."
    )
    heads = "| kind | models | mean ratio | worst | compile, s |\n|---|---:|---:|---:|---:|"
    return "\n".join([said, "", heads, *_lines(rows)])


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line of the table for each kind."""
    kinds = {kind: list(found) for kind, found in groupby(rows, key=lambda row: row["kind"])}
    means = {kind: _mean(found) for kind, found in kinds.items()}
    for kind in sorted(kinds, key=lambda kind: means[kind]):
        found = kinds[kind]
        ratios = [row["ratio"] for row in found if row["ratio"] is not None]
        seconds = [row["first_seconds"].get(OURS, 0.0) for row in found]
        cells = [f"{means[kind]:.2f}", f"{min(ratios):.2f}"] if ratios else ["-", "-"]
        name = kind.replace("_", " ")
        yield f"| {name} | {len(found)} | {' | '.join(cells)} | {max(seconds):.1f} |"


def _mean(rows: Sequence[Row]) -> float:
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    return statistics.geometric_mean(ratios) if ratios else np.inf


def sweep(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the models of *options*, and print a line of each; return what a file keeps."""
    rows: list[Row] = []
    data = {
        "measured": f"One thread of {processor()}, least processor time; {peers()}.",
        "seed": options.seed,
        "kinds": options.only,
        "rows": rows,
    }
    for kind in options.only:
        for index in range(options.models):
            drawn = draw(kind, options.seed, index)
            results = measure(drawn, options.engines, options.rounds, options.seconds)
            rows.append(row_of(kind, index, drawn, results))
            print(line_of(rows[-1]), flush=True)
        if options.output:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            options.output.write_text(json.dumps(data, indent=1), encoding="utf-8")
    return data


def parse_arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    kinds = f"without it, all: {', '.join(KINDS)}"
    parser.add_argument(
        "--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=kinds
    )
    parser.add_argument("--models", type=int, default=4, help="of each kind")
    parser.add_argument("--seed", type=int, default=1, help="another one gives other models")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.02, help="for each engine and round")
    parser.add_argument("--output", type=Path, help="file that is written, kind by kind")
    parser.add_argument("--table", type=Path, help="show what such a file says; measure nothing")
    parser.add_argument("--data", type=Path, help="file of measurements that takes the table")
    warm = "use the cache of kernels: shorter, and seconds to compile say nothing"
    parser.add_argument("--warm", action="store_true", help=warm)
    return parser.parse_args()


def main() -> None:
    """Measure, and show the table."""
    options = parse_arguments()
    os.environ |= {WORKERS_VARIABLE: "0", NETWORKS_VARIABLE: "0", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        if not options.warm:
            os.environ[CACHE_VARIABLE] = folder
        if options.table:
            data = json.loads(options.table.read_text(encoding="utf-8"))
        else:
            open_all(draw("clip", 0, 0), options.engines)  # whose first call imports and sets up
            data = sweep(options)
    print(table(data))
    if options.data:
        record(options.data, "kinds", table(data).splitlines())


if __name__ == "__main__":
    main()
