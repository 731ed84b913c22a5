"""What kind of file is this? Asked of Magika.

The files are those of this repository, which their names tell the kind of, and some that are made
here. The network sees the first and the last kilobyte, and no name::

    python -m experiments.real_models.solve kinds_of_files
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from typing_extensions import override

from experiments.real_models.shipped import KINDS, NAMES_OF_KINDS
from experiments.real_models.task import Answer, Run, Task, TrainedNetwork
from glow_nb.base.types import Array

ROOT = Path(__file__).parents[2]
OF_THE_REPOSITORY = {
    "glow_nb/cli.py": "python",
    "glow_nb/hlir/graph.py": "python",
    "experiments/training/digits.py": "python",
    "tests/conftest.py": "python",
    "README.md": "markdown",
    "docs/architecture.md": "markdown",
    "docs/training.md": "markdown",
    "Makefile": "makefile",
    "setup.cfg": "ini",
    "pyproject.toml": "toml",
    "docs/measurements.json": "json",
    "glow_nb/demo/digits.onnx": "onnx",
    "docs/figure11.png": "png",
    "docs/roofline.png": "png",
    ".ci/run": "shell",
}
"""Files of the repository, and the network's names of their kinds."""


def made_here() -> dict[str, bytes]:
    """Return contents that are written by Python's libraries, by their kinds."""
    numbers = np.random.default_rng(0).normal(size=300)
    array, archive = io.BytesIO(), io.BytesIO()
    np.save(array, numbers)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as folder:
        folder.writestr("numbers.txt", "\n".join(map(str, numbers)))
    text = "\n".join(f"{index},{number:.3f},{number > 0}" for index, number in enumerate(numbers))
    return {
        "csv": f"number,value,positive\n{text}\n".encode(),
        "gzip": gzip.compress(text.encode()),
        "npy": array.getvalue(),
        "pickle": pickle.dumps({"numbers": numbers.tolist()}),
        "zip": archive.getvalue(),
    }


class KindsOfFiles(Task):
    """The kinds of files of the repository, and of files that are made here."""

    networks: ClassVar[Mapping[str, TrainedNetwork]] = {"classifier": TrainedNetwork(KINDS)}
    further_files = (NAMES_OF_KINDS,)

    @override
    def solve(self, runs: Mapping[str, Run]) -> Answer:
        """Return the kinds, all found in one run."""
        known = [((ROOT / name).read_bytes(), kind) for name, kind in OF_THE_REPOSITORY.items()]
        known += [(content, kind) for kind, content in made_here().items()]
        names = json.loads(NAMES_OF_KINDS.path().read_text())["target_labels_space"]
        ends = np.stack([both_ends(content) for content, _ in known])
        (probabilities,) = runs["classifier"]({"bytes": ends}).values()
        found = [names[index] for index in probabilities.argmax(axis=1)]
        return Answer(found, [kind for _, kind in known])


def both_ends(content: bytes, length: int = 1024, block: int = 4096, filler: int = 256) -> Array:
    """Return the first and the last *length* bytes of *content*, ``int32[2 * length]``.

    White space at both ends is left out, and *filler* stands for bytes that are not there.
    """
    ends = np.full((2, length), filler, np.int32)
    first = np.frombuffer(content[:block].lstrip()[:length], np.uint8)
    last = np.frombuffer(content[-block:].rstrip()[-length:], np.uint8)
    ends[0, : len(first)] = first
    ends[1, length - len(last) :] = last
    return ends.reshape(-1)
