"""Which generated texts does a change move, on which processors?

The kernels and the entry of each benchmark network are written for several processors, and none of
them is compiled. A record holds a hash of each; two records tell what moved::

    python -m experiments.benchmarks.replay record before.json
    python -m experiments.benchmarks.replay record after.json --rows zen3 --only resnet50 bert_128
    python -m experiments.benchmarks.replay compare before.json after.json

``python -m experiments.benchmarks.replay between COMMIT COMMIT`` makes both records, in a work
tree of each commit, and compares them; the second one may be left out for the work tree as it is.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from typing_extensions import override

import glow_nb
from experiments.networks import mobile as mobile_networks
from experiments.networks import transformers
from experiments.networks.training import CASES
from experiments.networks.twins import NAMES, make_twin
from glow_nb import quant
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.constant_block import ConstantBlock
from glow_nb.backends.cpu.executable import CpuExecutable
from glow_nb.backends.cpu.placed_calls import Places
from glow_nb.backends.cpu.planned_calls import Kernels, plan_calls, used_weights
from glow_nb.base.errors import GlowError
from glow_nb.codegen.entry import generate_entry
from glow_nb.hlir.graph import Function
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Program
from glow_nb.train import SGD, SoftmaxCrossEntropy, Trainer

THREADS = (1, 2)

Texts = dict[str, int]
"""How many calls of a run have each text, by the name that its hash gives it."""

Record = dict[str, dict[str, Texts]]
"""Texts by processor, then by network."""


class WrittenError(GlowError):
    """Ends a compilation once all texts are written."""

    def __init__(self, texts: Texts) -> None:
        """Carry the *texts*."""
        super().__init__(f"{len(texts)} texts are written")
        self.texts = texts


class Writer(CpuBackend):
    """The cpu backend, up to the texts: instead of compiling them, it raises WrittenError."""

    @override
    def compile(self, program: Program, *, threads: int) -> CpuExecutable:
        constants = ConstantBlock(used_weights(program))
        places = Places(program, constants.places, 0)
        planned = plan_calls(program, places, Kernels(self.target), threads)
        texts = Counter(call.source.symbol for call in planned.calls)
        entry = generate_entry(planned.calls, planned.threads).text
        texts[f"entry_{hashlib.sha256(entry.encode()).hexdigest()[:16]}"] = 1
        raise WrittenError(dict(texts))


def _inference(make: Callable[[], object], backend: Writer, threads: int) -> None:
    model = make()
    assert not isinstance(model, Function) or model.nodes
    glow_nb.compile(model, backend=backend, threads=threads)  # type: ignore[arg-type]


def _quantized() -> Function:
    """Return a twin in integers; the ranges are those of one image of noise."""
    twin = make_twin("squeezenet")
    noise = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    return quant.quantize(twin, quant.calibrate(twin, noise), least_gain=0)


def _training_step(name: str, backend: Writer, threads: int) -> None:
    case = CASES[name]
    trainer = Trainer(
        case.make(case.batch),
        loss=SoftmaxCrossEntropy(),
        optimizer=SGD(0.1, momentum=0.9),
        backend=backend,
        threads=threads,
    )
    trainer.step(*case.data(1)[0])


Job = Callable[[Writer, int], None]

JOBS: Mapping[str, Job] = {
    **{name: partial(_inference, partial(make_twin, name)) for name in NAMES},
    **{
        name: partial(_inference, make)
        for name, make in transformers.NETWORKS.items()
        if not name.startswith("odd")
    },
    **{make.__name__: partial(_inference, make) for make in mobile_networks.NETWORKS},
    "squeezenet_int8": partial(_inference, _quantized),
    **{f"train_{name}": partial(_training_step, name) for name in CASES},
}
"""What is compiled, by name."""


def texts_of(job: Job, machine: Machine, threads: int) -> Texts:
    """Return the texts of one network on one machine."""
    try:
        job(Writer(Target.of(machine), threads=threads), threads)
    except WrittenError as written:
        return written.texts
    raise AssertionError("the network was compiled without its texts")


def record(rows: Iterable[str], names: Iterable[str]) -> Record:
    """Return the texts of the networks called *names* on the processors called *rows*."""
    found: Record = {row: {} for row in rows}
    for name in names:
        began = time.perf_counter()
        for row in found:
            for threads in THREADS:
                texts = texts_of(JOBS[name], ROWS[row], threads)
                found[row][f"{name}, {threads} threads"] = texts
        print(f"{name}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    return found


def moved(before: Record, after: Record) -> list[str]:
    """Return a line for each network whose texts differ on a processor that both records have."""
    lines = []
    for row in (row for row in before if row in after):
        for name in (name for name in before[row] if name in after[row]):
            old, new = Counter(before[row][name]), Counter(after[row][name])
            gone, come = sorted(old - new), sorted(new - old)
            if gone or come:
                lines.append(f"{row}, {name}: {len(gone)} of {len(old)} texts moved")
                lines += [f"    - {text}" for text in gone] + [f"    + {text}" for text in come]
    return lines


def record_commit(commit: str, path: Path, options: Sequence[str]) -> None:
    """Write to *path* the record that the files of *commit* make."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "worktree", "add", "--detach", folder, commit], check=True)
        try:
            module = "experiments.benchmarks.replay"
            command = [sys.executable, "-m", module, "record", str(path), *options]
            path_variable = {"PYTHONPATH": folder}
            subprocess.run(command, cwd=folder, env=os.environ | path_variable, check=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Record, or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = argparse.ArgumentParser(add_help=False)
    recording.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    recording.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    one = commands.add_parser("record", parents=[recording], help="write a record")
    one.add_argument("path", type=Path)
    two = commands.add_parser("compare", help="tell what moved between two records")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    both = commands.add_parser("between", parents=[recording], help="record two commits, compare")
    both.add_argument("commits", nargs="+", metavar="COMMIT")
    given = parser.parse_args(arguments)
    if given.command == "record":
        given.path.write_text(json.dumps(record(given.rows, given.only), indent=1) + "\n")
        return
    if given.command == "compare":
        _tell(given.before, given.after)
        return
    if len(given.commits) > 2:
        parser.error("between takes one or two commits")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, "before.json"), Path(folder, "after.json")]
        options = ["--rows", *given.rows, "--only", *given.only]
        for commit, path in zip(given.commits, paths, strict=False):
            record_commit(commit, path, options)
        if len(given.commits) == 1:
            paths[1].write_text(json.dumps(record(given.rows, given.only)))
        _tell(*paths)


def _tell(before: Path, after: Path) -> None:
    old, new = (json.loads(path.read_text()) for path in (before, after))
    lines = moved(old, new)
    count = sum(len(networks) for row, networks in old.items() if row in new)
    print("\n".join(lines) if lines else f"nothing moved in {count} networks")


if __name__ == "__main__":
    main()
