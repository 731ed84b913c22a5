"""A trained network reads handwritten digits: its results, and its cost."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click
import numpy as np

import glow_nb
from glow_nb.base.distance import distance
from glow_nb.base.quantities import byte_count
from glow_nb.base.types import Array
from glow_nb.codegen.cache import ObjectCache
from glow_nb.commands.errors import CleanCommand
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.demo.handwriting import (
    IMAGE,
    MODEL,
    SCORES,
    SOURCE,
    Handwriting,
    Reading,
    drawn_with_characters,
    load_digits,
    reading_of,
)
from glow_nb.demo.memory import NOTHING, memory_of_process
from glow_nb.demo.picture import COLUMNS, draw_reading
from glow_nb.demo.race import Runner, race
from glow_nb.network.network import Network
from glow_nb.system.cache_folder import CACHE_VARIABLE
from glow_nb.system.cores import available_cores
from glow_nb.system.replaced_files import replace_file
from glow_nb.tools.duel.engines import is_installed, open_onnxruntime

SHOWN = 4
"""Digits that are printed; a line of them fits 80 columns."""

FIRST, DOUBTED = 4 * COLUMNS, 2 * COLUMNS
"""Digits in the picture: the first ones, and those that the network is least sure of."""

ENGINES = {"glow_nb": "glow_nb", "onnxruntime": "ONNX Runtime"}


@click.command(cls=CleanCommand)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    metavar="FOLDER",
    help="Where the picture and the report go, and copies of the network and the digits.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads that read all digits at once.  [default: all cores that are available]",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Number of turns of each engine; the shortest time is shown.",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Compile with an empty cache of kernels, which is thrown away afterwards.",
)
def main(output: Path, threads: int | None, rounds: int, fresh: bool) -> None:
    """Read 360 handwritten digits, draw what was read, time it, and write a report.

    The network was trained on other digits of the same people. Where ONNX Runtime is installed, it
    reads the same digits beside glow_nb.
    """
    with tempfile.TemporaryDirectory() if fresh else nullcontext() as folder:
        if folder is not None:
            os.environ[CACHE_VARIABLE] = folder
        _show(output, threads or available_cores(), rounds)


def _show(output: Path, threads: int, rounds: int) -> None:
    output.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    count = len(digits.written)
    _say("digits", f"{count} handwritten digits of 8 x 8 pixels ({SOURCE})")
    _say("network", "3 convolutions and a dense layer, trained on other digits of these people")
    model, images = copy_files(digits, output)
    single, batch = _compile(model, 1, 1), _compile(model, count, threads)
    _compile(model, count, threads)
    scores = batch.run({IMAGE: digits.images})[SCORES]
    _check(model, digits, scores)
    reading = reading_of(scores)
    _show_reading(digits, reading)
    _draw(digits, reading, output / "digits_read.svg")
    show_costs(model, images, digits, {1: single, count: batch}, threads, rounds)
    _say("plan", f"glow_nb has planned all of its memory before a run: {batch.memory}")
    _report(batch, digits, output / "report.html")


def _say(topic: str, words: str) -> None:
    click.echo(f"{topic:<10}{words}")


def copy_files(digits: Handwriting, output: Path) -> tuple[Path, Path]:
    """Write the network and the images to *output*, for what a reader wants to try next."""
    model, images = output / "digits.onnx", output / "digits.npy"

    def write_array(place: Path) -> None:
        with place.open("wb") as stream:  # given a path, NumPy would add a suffix to it
            np.save(stream, digits.images)

    replace_file(model, lambda place: shutil.copyfile(MODEL, place))
    replace_file(images, write_array)
    _say("", f"{model} is the network, {images} the digits for its input {IMAGE!r}")
    return model, images


def _compile(model: Path, count: int, threads: int) -> Network:
    """Compile for *count* digits at once; say how long it took and how many kernels were new.

    Other sizes and numbers of threads need other kernels, so some of them are not cached yet.
    """
    before = _cached_objects()
    started = time.perf_counter()
    network = glow_nb.compile(model, shapes={"batch": count}, threads=threads)
    seconds = time.perf_counter() - started
    kernels = {kernel.symbol for kernel in network.kernels}
    news = {name.partition(".")[0] for name in _cached_objects() - before}
    told = _count_kernels(len(kernels), len(kernels & news))
    purpose = f"{_digits(count)} at once, {_threads(threads)}"
    _say("compile", f"{seconds:.2f} s for {purpose}: {told}")
    return network


def _cached_objects() -> set[str]:
    """Return the names of the objects in the cache: a kernel's symbol, then what it was made by."""
    folder = ObjectCache().folder
    return {path.name for path in folder.glob("*.o")} if folder else set()


def _count_kernels(kernels: int, built: int) -> str:
    news = {0: "all of them from the cache", kernels: "all of them built now"}
    return f"{kernels} kernels, {news.get(built, f'{built} of them built now')}"


def _digits(count: int) -> str:
    return "1 digit" if count == 1 else f"{count} digits"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _check(model: Path, digits: Handwriting, scores: Array) -> None:
    shapes = {"batch": len(digits.written)}
    reference = glow_nb.compile(model, backend="interpreter", shapes=shapes, threads=1)
    expected = reference.run({IMAGE: digits.images})[SCORES]
    error = distance(expected, scores)
    _say("check", f"largest difference from NumPy: {error:.1e} of the largest score")


def _show_reading(digits: Handwriting, reading: Reading) -> None:
    sure = 100 * reading.sureness()
    captions = [f"reads {reading.read[i]} ({sure[i]:.0f} %)" for i in range(SHOWN)]
    click.echo()
    click.echo(drawn_with_characters(digits.images[:SHOWN], captions))
    click.echo()
    wrong = np.flatnonzero(reading.read != digits.written)
    right = len(digits.written) - len(wrong)
    mistakes = ", ".join(f"{digits.written[i]} read as {reading.read[i]}" for i in wrong)
    _say("read", f"{right} of {len(digits.written)} digits correctly; wrong: {mistakes or 'none'}")


def _draw(digits: Handwriting, reading: Reading, path: Path) -> None:
    bars = "with the probabilities of 0 to 9"
    order = np.argsort(reading.sureness(), kind="stable")
    groups = (
        (f"The first {FIRST} of {len(order)} digits as they were read, {bars}", range(FIRST)),
        (f"The {DOUBTED} digits that the network is least sure of", order[:DOUBTED].tolist()),
    )
    text = draw_reading(digits, reading, groups)
    replace_file(path, lambda place: place.write_text(text, encoding="utf-8"))
    _say("picture", f"{path}: digits as they were read, with the probabilities of 0 to 9")


def show_costs(
    model: Path,
    images: Path,
    digits: Handwriting,
    networks: dict[int, Network],
    threads: int,
    rounds: int,
) -> None:
    """Print the times and the memory of both engines."""
    engines = [engine for engine in ENGINES if is_installed(engine)]
    threads_of = {count: 1 if count == 1 else threads for count in networks}
    runners: dict[tuple[str, int], Runner] = {}
    for count, network in networks.items():
        feeds = {IMAGE: digits.images[:count]}
        runners["glow_nb", count] = Runner(partial(network.run, feeds))
        if "onnxruntime" in engines:
            theirs = open_onnxruntime(str(model), threads_of[count])
            runners["onnxruntime", count] = Runner(partial(theirs, feeds))
    race(list(runners.values()), rounds)
    console = make_console()
    names = [f"#{_digits(count)}, {_threads(threads_of[count])}" for count in networks]
    table = make_table(console, "cost", ["engine", *names, "#memory of the process"])
    for engine in engines:
        times = [_duration(runners[engine, count].best_seconds) for count in networks]
        memory = memory_of_process(engine, model, images, threads)
        table.add_row(ENGINES[engine], *times, "-" if memory is None else byte_count(memory))
    click.echo()
    print_table(console, table)
    alone = memory_of_process(NOTHING, model, images, threads)
    if alone is not None:
        click.echo(f"{byte_count(alone)} of the memory are Python, NumPy and the digits.")
    if "onnxruntime" not in engines:
        click.echo("ONNX Runtime is not installed; after pip install onnxruntime it is compared.")
    click.echo()


def _report(network: Network, digits: Handwriting, path: Path) -> None:
    network.report(path, {IMAGE: digits.images})
    _say("report", f"{path}: graphs, kernels, times and memory of this network, for a browser")


def _duration(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} us" if seconds < 1e-3 else f"{1e3 * seconds:.1f} ms"


if __name__ == "__main__":
    main(prog_name="python -m glow_nb.demo")
