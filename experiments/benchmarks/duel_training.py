"""How fast is a training step beside PyTorch's, and are the losses the same?

Both begin with the same weights and make three steps of SGD with momentum on the same batches, of
which losses and the outputs of the trained network are compared. Then each makes steps in turn, in
a process of its own. The ratio is PyTorch's shortest time over ours: above 1 we are faster. PyTorch
runs in its default layout and, for images, with the channels last, too; the faster one counts::

    python -m experiments.benchmarks.duel_training --threads 1
    python -m experiments.benchmarks.duel_training --only mlp encoder --torch /path/to/python

``--torch`` names a Python that has PyTorch, by default the one that runs this.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import numpy_helper

from experiments.arguments import thread_count
from experiments.benchmarks.timing import times_for
from experiments.networks.training import CASES, Case
from glow_nb.base.types import Array
from glow_nb.train import SGD, SoftmaxCrossEntropy, Trainer

RATE, MOMENTUM, BATCHES = 0.01, 0.9, 3
SPEED = ("mlp", "lenet", "encoder", "resnet18")
"""The networks whose speed counts; the others are compared for their numbers."""


@dataclass
class Result:
    """What one engine showed.

    Attributes:
        losses: Of the steps that are compared.
        outputs: Of the trained network.
        first_seconds: Until the first step was made.
        times: Seconds of each measured step.
    """

    losses: list[float]
    outputs: Array
    first_seconds: float = 0.0
    times: list[float] = field(default_factory=list)


class Ours:
    """A trainer in this process."""

    def __init__(self, case: Case, threads: int) -> None:
        """Make the steps that are compared."""
        self._data = case.data(BATCHES)
        optimizer = SGD(RATE, momentum=MOMENTUM)
        began = time.perf_counter()
        self._trainer = Trainer(
            case.make(case.batch), loss=SoftmaxCrossEntropy(), optimizer=optimizer, threads=threads
        )
        losses = [self._trainer.step(*self._data[0])]
        first = time.perf_counter() - began
        losses += [self._trainer.step(*pair) for pair in self._data[1:]]
        outputs = self._trainer.predict(self._data[0][0])["y"]
        self.result = Result(losses, outputs, first)

    def measure(self, seconds: float) -> None:
        """Make steps for some seconds."""
        self.result.times += times_for(partial(self._trainer.step, *self._data[0]), seconds)


class Torch:
    """PyTorch in a process of its own."""

    def __init__(
        self, python: str, name: str, case: Case, threads: int, folder: Path, channels_last: bool
    ) -> None:
        """Let it make the steps that are compared."""
        folder.mkdir()
        task = {"network": name, "threads": threads, "batches": BATCHES, "rate": RATE}
        task |= {"momentum": MOMENTUM, "channels_last": channels_last}
        (folder / "task.json").write_text(json.dumps(task))
        weights = case.make(case.batch).graph.initializer
        _save(folder / "weights.npz", {w.name: numpy_helper.to_array(w) for w in weights})
        arrays = {
            f"{k}{i}": a
            for i, p in enumerate(case.data(BATCHES))
            for k, a in zip("xt", p, strict=True)
        }
        _save(folder / "data.npz", arrays)
        script = Path(__file__).parents[1] / "networks" / "torch_training.py"
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [python, "-P", str(script), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        losses = self._answer()
        self.result = Result(losses, np.load(folder / "torch.npy"), time.perf_counter() - began)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("PyTorch has stopped, see above; --torch names a Python that has it")
        return json.loads(line)

    def measure(self, seconds: float) -> None:
        """Let it make steps for some seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        self.result.times += self._answer()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _save(path: Path, arrays: dict[str, Any]) -> None:
    np.savez(path, **arrays)


def compare(ours: Result, theirs: Result) -> tuple[float, float]:
    """Return the largest differences of losses and of outputs, over the largest output."""
    losses = max(abs(a - b) for a, b in zip(ours.losses, theirs.losses, strict=True))
    size = np.abs(theirs.outputs).max()
    return losses, float(np.abs(ours.outputs - theirs.outputs).max() / size)


def duel(
    python: str, name: str, threads: int, rounds: int, seconds: float
) -> tuple[Result, dict[str, Result]]:
    """Let both engines train in turn; return our result, and PyTorch's by its layout."""
    case = CASES[name]
    layouts = ["default", *(["channels last"] if len(case.shape) == 3 else [])]
    with tempfile.TemporaryDirectory() as folder:
        peers = {
            layout: Torch(
                python, name, case, threads, Path(folder) / layout, layout == "channels last"
            )
            for layout in layouts
        }
        ours = Ours(case, threads)
        for _ in range(rounds):
            ours.measure(seconds)
            for peer in peers.values():
                peer.measure(seconds)
        for peer in peers.values():
            peer.close()
    return ours.result, {layout: peer.result for layout, peer in peers.items()}


def report(name: str, threads: int, ours: Result, peers: dict[str, Result]) -> float | None:
    """Print what came out; return the ratio of minima if there are times."""
    losses, outputs = compare(ours, peers["default"])
    print(f"{name}, {threads} threads: losses differ by {losses:.1e}, outputs by {outputs:.1e}")
    if not ours.times:
        return None
    for engine, result in {"glow_nb": ours, **{f"torch, {k}": v for k, v in peers.items()}}.items():
        least, median = min(result.times) * 1e3, statistics.median(result.times) * 1e3
        print(
            f"  {engine:22s} first {result.first_seconds:6.2f} s   min {least:9.2f} ms   "
            f"median {median:9.2f} ms   steps {len(result.times)}"
        )
    ratio = min(min(peer.times) for peer in peers.values()) / min(ours.times)
    medians = min(statistics.median(p.times) for p in peers.values())
    print(f"  ratio {ratio:.3f}   of medians {medians / statistics.median(ours.times):.3f}")
    return ratio


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare and measure the networks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--threads", type=thread_count, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=4, help="0 compares numbers alone")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each engine and round")
    parser.add_argument("--torch", default=sys.executable, help="a Python that has PyTorch")
    given = parser.parse_args(arguments)
    for threads in given.threads:
        ratios = []
        for name in given.only:
            rounds = given.rounds if name in SPEED else 0
            results = duel(given.torch, name, threads, rounds, given.seconds)
            ratio = report(name, threads, *results)
            ratios += [] if ratio is None else [ratio]
        if len(ratios) > 1:
            mean = statistics.geometric_mean(ratios)
            print(f"geometric mean over {len(ratios)} networks, {threads} threads: {mean:.3f}")


if __name__ == "__main__":
    main()
