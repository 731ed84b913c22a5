"""ResNet50 looks at a photograph: what it costs to compile, to run and to remember."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click
import numpy as np
import onnx

import glow_nb
from glow_nb.base.distance import distance
from glow_nb.base.extras import how_to_add
from glow_nb.base.quantities import byte_count
from glow_nb.base.types import Array
from glow_nb.codegen.cache import ObjectCache
from glow_nb.commands.errors import CleanCommand
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.demo.network import INPUT, LOGITS, PROBABILITIES, make_resnet50
from glow_nb.demo.photograph import load_image
from glow_nb.demo.race import Engine, onnxruntime_engines, race
from glow_nb.network.network import Network
from glow_nb.system.cache_folder import CACHE_VARIABLE
from glow_nb.system.cores import available_cores
from glow_nb.system.replaced_files import replace_file

Outputs = dict[str, Array]


@click.command(cls=CleanCommand)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out"),
    show_default=True,
    metavar="FOLDER",
    help="Where the model, the photograph as an array and the picture of the arena go.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Threads of the parallel runs.  [default: all cores that are available]",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="How often each engine has its turn; the shortest time counts.",
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Compile with an empty cache of kernels, which is thrown away afterwards.",
)
def main(output: Path, threads: int | None, rounds: int, fresh: bool) -> None:
    """Compile ResNet50, run it on a photograph, time it and draw its memory.

    The network has the structure of ResNet50 and seeded random weights, so the classes it finds
    mean nothing; everything else is as it would be with trained ones.
    """
    with tempfile.TemporaryDirectory() if fresh else nullcontext() as folder:
        if folder is not None:
            os.environ[CACHE_VARIABLE] = folder
        _show(output, threads or available_cores(), rounds)


def _show(output: Path, threads: int, rounds: int) -> None:
    output.mkdir(parents=True, exist_ok=True)
    image, words = load_image()
    _say("image", words)
    started = time.perf_counter()
    model = make_resnet50(image)
    seconds = time.perf_counter() - started
    _say("network", f"ResNet50 with random weights, made for this image in {seconds:.1f} s")
    _say("", "it is not trained: speed and memory are real, the classes it names mean nothing")
    save_model(model, image, output)
    serial = _compile(model, 1)
    parallel = _compile(model, threads) if threads > 1 else serial
    _compile(model, 1)
    reference = glow_nb.compile(model, backend="interpreter", threads=1)
    outputs = serial.run(image)
    _show_outputs(outputs, reference.run(image))
    _show_times(model, image, {1: serial, threads: parallel}, reference, rounds)
    _show_memory(serial)
    _draw(serial, output / "memory_map.png")


def _say(topic: str, words: str) -> None:
    click.echo(f"{topic:<12}{words}")


def save_model(model: onnx.ModelProto, image: Array, output: Path) -> None:
    """Write the model and its input to *output*, for what a reader wants to try next."""
    file, photograph = output / "resnet50.onnx", output / "photograph.npy"

    def write_array(place: Path) -> None:
        with place.open("wb") as stream:  # given a path, NumPy would add a suffix to it
            np.save(stream, image)

    replace_file(file, lambda place: onnx.save(model, place))
    replace_file(photograph, write_array)
    _say("", f"{file} is the model, {photograph} the photograph for its input {INPUT!r}")


def _compile(model: onnx.ModelProto, threads: int) -> Network:
    """Compile for so many threads; say how long it took and how many kernels were new.

    Several threads share the work in other pieces, so some of their kernels are not cached yet.
    """
    before = _cached_objects()
    started = time.perf_counter()
    network = glow_nb.compile(model, threads=threads)
    seconds = time.perf_counter() - started
    kernels = {kernel.symbol for kernel in network.kernels}
    news = {name.partition(".")[0] for name in _cached_objects() - before}
    noun = "thread" if threads == 1 else "threads"
    counted = _count_kernels(len(kernels), len(kernels & news))
    _say("compile", f"{seconds:.2f} s for {threads} {noun}: {counted}")
    return network


def _cached_objects() -> set[str]:
    """Return the names of the objects in the cache: a kernel's symbol, then what it was made by."""
    folder = ObjectCache().folder
    return {path.name for path in folder.glob("*.o")} if folder else set()


def _count_kernels(kernels: int, built: int) -> str:
    news = {0: "all of them from the cache", kernels: "all of them built now"}
    return f"{kernels} different kernels, {news.get(built, f'{built} of them built now')}"


def _show_outputs(outputs: Outputs, reference: Outputs) -> None:
    logits, expected = outputs[LOGITS], reference[LOGITS]
    error = distance(expected, logits)
    _say("result", f"largest difference to the interpreter: {error:.1e} of the largest logit")
    row = outputs[PROBABILITIES][0]
    best = np.argsort(-row, kind="stable")[:5]
    classes = ", ".join(f"{place} ({100 * row[place]:.2f} %)" for place in best)
    _say("", f"best classes, of a network that is not trained: {classes}")


def _show_times(
    model: onnx.ModelProto,
    image: Array,
    networks: dict[int, Network],
    reference: Network,
    rounds: int,
) -> None:
    feeds = {INPUT: image}
    ours = [
        Engine("glow_nb", threads, partial(network.run, feeds))
        for threads, network in networks.items()
    ]
    peers = onnxruntime_engines(model, feeds, list(networks))
    if not peers:
        _say("", "ONNX Runtime is not installed, so it is not in the race (the extra 'bench')")
    race([*ours, *peers], rounds)
    interpreter = Engine("interpreter (NumPy)", None, partial(reference.run, feeds))
    race([interpreter], 1)
    console = make_console()
    table = make_table(console, "time per image", ["engine", "#threads", "#ms", "#of glow_nb's"])
    best = {engine.threads: engine.best_seconds for engine in ours}
    for engine in (*ours, *peers, interpreter):
        ratio = engine.best_seconds / best[engine.threads or 1]
        table.add_row(
            engine.name,
            str(engine.threads or "any"),
            f"{1e3 * engine.best_seconds:.1f}",
            f"{ratio:.2f} x",
        )
    click.echo()
    print_table(console, table)
    click.echo()


def _show_memory(network: Network) -> None:
    memory = network.memory
    ratio = memory.arena_bytes / memory.lower_bound_bytes
    _say(
        "memory",
        f"arena {byte_count(memory.arena_bytes)}, {ratio:.3f} of its lower bound "
        f"{byte_count(memory.lower_bound_bytes)}; unshared {byte_count(memory.unshared_bytes)}",
    )
    _say(
        "",
        f"constants {byte_count(memory.constant_bytes)}, "
        f"scratch {byte_count(memory.scratch_bytes)} a thread",
    )


def _draw(network: Network, picture: Path) -> None:
    try:
        from glow_nb.network.pictures.memory_map import draw_memory_map
    except ModuleNotFoundError as error:
        _say("picture", f"none, since {error.name} is not installed; {how_to_add('plot')}")
        return
    draw_memory_map(network.program, picture, "ResNet50, one image: every activation in memory")
    _say("picture", f"{picture}: the arena, time by address")


if __name__ == "__main__":
    main(prog_name="python -m glow_nb.demo")
