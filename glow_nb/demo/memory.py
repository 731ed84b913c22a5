"""The memory that an engine takes, measured in a process of its own.

Started as ``python -m glow_nb.demo.memory ENGINE MODEL IMAGES THREADS``, with the images in a file
of NumPy. The process runs the model once and prints the largest memory that it had. The engine
NOTHING runs nothing: what Python and NumPy take.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import glow_nb
from glow_nb.base.errors import GlowError
from glow_nb.demo.handwriting import IMAGE
from glow_nb.tools.duel.engines import open_onnxruntime

NOTHING = "nothing"
STATUS = Path("/proc/self/status")
"""Where Linux tells a process of its memory."""


def memory_of_process(engine: str, model: Path, images: Path, threads: int) -> int | None:
    """Return the bytes of a process that reads *images* once; None where the system reports none.

    Raises:
        GlowError: The process ended with an error, or was killed.
    """
    if not STATUS.exists():
        return None
    command = [sys.executable, "-m", __name__, engine, str(model), str(images), str(threads)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        last = told.stderr.strip().rpartition("\n")[2] or "it said nothing"
        raise GlowError(
            f"the process that measures the memory of {engine} ended with status "
            f"{told.returncode}: {last}; look at what {' '.join(command)} says"
        )
    return int(told.stdout)


def run_once(engine: str, model: str, images: str, threads: int) -> None:
    """Run *model* in *engine* as the demonstration does, compiled for the number of images."""
    feeds = {IMAGE: np.load(images)}
    match engine:
        case "glow_nb":
            shapes = {"batch": len(feeds[IMAGE])}
            glow_nb.compile(model, shapes=shapes, threads=threads).run(feeds)
        case "onnxruntime":
            open_onnxruntime(model, threads, alone=True)(feeds)


def largest_memory() -> int:
    """Return the most bytes of memory that this process has had."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return 1024 * int(lines["VmHWM"].split()[0])


if __name__ == "__main__":
    asked, file, arrays, count = sys.argv[1:]
    run_once(asked, file, arrays, int(count))
    print(largest_memory())
