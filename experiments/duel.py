"""How fast is glow_nb beside the engines people use?

The same ONNX model runs in several engines. Each lives in a process of its own and is asked in
turn (A B C A B C ...), so that a machine whose speed drifts slows all of them alike. The smallest
of many times counts, and the ratio is the best peer's time over ours: above 1 we are faster.
Without models it measures the twins of the nine light models of the ``onnx`` package::

    python -m experiments.duel --threads 1
    python -m experiments.duel model.onnx --engines glow_nb onnxruntime --rounds 12

A peer that is not installed is left out, and the output says so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import onnx

from experiments.twins import NAMES, make_twin, random_feeds

Arrays = dict[str, npt.NDArray[np.generic]]
Runner = Callable[[Arrays], Sequence[npt.NDArray[np.generic]]]

ENGINES = ("glow_nb", "onnxruntime", "openvino")


@dataclass
class Result:
    """What one engine showed on one model.

    Attributes:
        first_seconds: Loading or compiling, and the first run.
        times: Wall seconds of each measured run.
        outputs: The arrays of the first run.
        missing: Why the engine is left out; empty if it is not.
    """

    first_seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    outputs: list[npt.NDArray[np.generic]] = field(default_factory=list)
    missing: str = ""


def open_engine(engine: str, path: str, threads: int) -> Runner:
    """Return a function that runs the model at *path* in *engine*."""
    match engine:
        case "glow_nb":
            return _open_glow_nb(path, threads)
        case "onnxruntime":
            return _open_onnxruntime(path, threads)
        case "openvino":
            return _open_openvino(path, threads)
        case _:
            raise SystemExit(f"unknown engine {engine!r}; use one of {', '.join(ENGINES)}")


def _open_glow_nb(path: str, threads: int) -> Runner:
    import glow_nb

    net = glow_nb.compile(path, threads=threads)
    return lambda feeds: list(net.run(feeds).values())


def _open_onnxruntime(path: str, threads: int) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, feeds))


def _open_openvino(path: str, threads: int) -> Runner:
    import openvino

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(path, "CPU", config)
    request = compiled.create_infer_request()

    def run(feeds: Arrays) -> list[npt.NDArray[np.generic]]:
        request.infer(feeds)
        return [request.get_output_tensor(i).data.copy() for i in range(len(compiled.outputs))]

    return run


def serve(engine: str, path: str, threads: int, folder: Path) -> None:
    """Answer the parent: one line when ready, then one list of times for each line of seconds."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever an engine prints must not mix with the answers
    started = time.perf_counter()
    try:
        run = open_engine(engine, path, threads)
    except ImportError as error:
        answers.write(json.dumps({"missing": str(error)}) + "\n")
        return
    feeds = random_feeds(onnx.load(path, load_external_data=False))
    outputs = run(feeds)
    first_seconds = time.perf_counter() - started
    np.savez(folder / f"{engine}.npz", *[np.asarray(output) for output in outputs])
    answers.write(json.dumps({"first_seconds": first_seconds}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(_measure(run, feeds, float(line))) + "\n")


def _measure(run: Runner, feeds: Arrays, seconds: float) -> list[float]:
    times: list[float] = []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < seconds:
        started = time.perf_counter()
        run(feeds)
        times.append(time.perf_counter() - started)
    return times


class Worker:
    """One engine in a process of its own."""

    def __init__(self, engine: str, path: str, threads: int, folder: Path) -> None:
        """Start *engine* and wait until it has run the model once."""
        command = [sys.executable, "-m", "experiments.duel", path]
        command += ["--serve", engine, "--threads", str(threads), "--folder", str(folder)]
        limits = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        self.result = Result()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | limits,
            cwd=Path(__file__).parent.parent,
        )
        answer = self._read({"missing": "it stopped before its first answer"})
        self.result.missing = answer.get("missing", "")
        if not self.result.missing:
            self.result.first_seconds = answer["first_seconds"]
            with np.load(folder / f"{engine}.npz", allow_pickle=False) as outputs:
                self.result.outputs = list(outputs.values())

    def measure(self, seconds: float) -> None:
        """Let the engine run for *seconds*."""
        requests: IO[str] | None = self._process.stdin
        assert requests is not None
        requests.write(f"{seconds}\n")
        requests.flush()
        self.result.times += self._read([])

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def _read(self, otherwise: Any) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else otherwise


def duel(
    path: str, threads: int, engines: Sequence[str], rounds: int, seconds: float
) -> dict[str, Result]:
    """Run the model at *path* in each engine for *rounds* turns of *seconds*."""
    with tempfile.TemporaryDirectory() as folder:
        workers = {name: Worker(name, path, threads, Path(folder)) for name in engines}
        ready = [worker for worker in workers.values() if not worker.result.missing]
        for _ in range(rounds):
            for worker in ready:
                worker.measure(seconds)
        for worker in workers.values():
            worker.close()
    return {name: worker.result for name, worker in workers.items()}


def ratio_of(results: dict[str, Result]) -> float | None:
    """Return the best peer's smallest time over ours; None if either did not run."""
    best = {name: min(result.times) for name, result in results.items() if result.times}
    peers = [seconds for name, seconds in best.items() if name != "glow_nb"]
    return min(peers) / best["glow_nb"] if peers and "glow_nb" in best else None


def difference(outputs: Sequence[npt.NDArray[Any]], expected: Sequence[npt.NDArray[Any]]) -> float:
    """Return the largest difference over the largest magnitude of *expected*."""
    scale = max(float(np.abs(array.astype(np.float64)).max(initial=0.0)) for array in expected)
    pairs = zip(outputs, expected, strict=True)
    return max(float(np.abs(a.astype(np.float64) - b).max(initial=0.0)) for a, b in pairs) / (
        scale or 1.0
    )


def report(title: str, results: dict[str, Result]) -> None:
    """Print one line for each engine, and the ratio."""
    print(title)
    expected = next((result.outputs for result in results.values() if result.outputs), [])
    for name, result in results.items():
        if not result.times:
            print(f"  {name:12s} left out: {result.missing or 'it stopped while it was measured'}")
            continue
        print(
            f"  {name:12s} first {result.first_seconds:7.2f} s"
            f"   min {min(result.times) * 1e3:9.2f} ms"
            f"   median {statistics.median(result.times) * 1e3:9.2f} ms"
            f"   runs {len(result.times):4d}"
            f"   difference {difference(result.outputs, expected):.1e}"
        )
    ratio = ratio_of(results)
    if ratio is not None:
        print(f"  ratio {ratio:.3f}", flush=True)


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
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure every model and print the geometric mean of the ratios."""
    arguments = _parse_arguments()
    if arguments.serve:
        serve(arguments.serve, arguments.model[0], arguments.threads, arguments.folder)
        return
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in _model_paths(arguments.model, Path(folder), arguments.batch):
            results = duel(
                path, arguments.threads, arguments.engines, arguments.rounds, arguments.seconds
            )
            report(f"{Path(path).name} threads={arguments.threads}", results)
            ratio = ratio_of(results)
            ratios += [] if ratio is None else [ratio]
    if len(ratios) > 1:
        mean = statistics.geometric_mean(ratios)
        print(f"geometric mean of ratios {mean:.3f} over {len(ratios)} models")


if __name__ == "__main__":
    main()
