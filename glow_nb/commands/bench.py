"""``glow-nb bench``: a model in several engines, asked in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from typing_extensions import override

from glow_nb.backends import backend_named
from glow_nb.base.distance import largest_distance
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.progress import report, shown
from glow_nb.base.quantities import count_of, duration
from glow_nb.base.schema import closest, listed
from glow_nb.base.text import format_name
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.json_text import json_text
from glow_nb.commands.numbers import FiniteRange
from glow_nb.commands.options import (
    ExampleCommand,
    model_argument,
    seed_option,
    threads_option,
    without_option,
)
from glow_nb.commands.size_ranges import are_given, size_options
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.network.compilation import order_for
from glow_nb.network.text_files import SUFFIX
from glow_nb.system.cores import available_cores
from glow_nb.tools.duel.contest import Measurement, duel, ratios_of
from glow_nb.tools.duel.engines import ENGINES, OURS, PEERS, Arrays, is_installed, require_installed

if TYPE_CHECKING:
    import onnx

LARGEST_FILE_BYTES = 1 << 30
"""A larger model is written with its weights beside it: an ONNX file has at most 2 GiB."""

LARGEST_DIFFERENCE = 1e-3
"""Outputs that differ by more, over the largest output, are not the same."""


@dataclass(frozen=True)
class EngineRow:
    """What one engine showed: seconds, times over ours, the difference over the largest number.

    What could not be compared is None.
    """

    engine: str
    first_seconds: float
    min_seconds: float
    median_seconds: float
    runs: int
    relative_min: float | None
    relative_median: float | None
    largest_difference: float | None
    differs: bool | None
    missing: str


class ManyEngines(ExampleCommand):
    """A command whose ``--against`` takes all engine names that follow it."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True  # to tell a misspelt engine from a second model
        left = super().parse_args(ctx, list(_spread(args)))
        if left and ctx.params.get("against"):
            ctx.fail(f"{left[0]!r} is no engine; use {' or '.join(PEERS)}, and one MODEL")
        if left:
            ctx.fail(f"one MODEL, please; {left[0]!r} is one argument too many")
        return left


def _spread(args: Sequence[str]) -> Iterator[str]:
    """Yield ``--against a --against b`` for ``--against a b`` and ``--against=a b``."""
    taking = False
    for index, text in enumerate(args):
        if taking and text in ENGINES and args[index - 1] != "--against":
            yield "--against"
        taking = text.partition("=")[0] == "--against" or (taking and text in ENGINES)
        yield text


EXAMPLES = """\
glow-nb bench model.onnx --against onnxruntime openvino
glow-nb bench model.onnx --threads 1 --batch 8 --json
glow-nb bench model.onnx --shape batch=1 --shape sequence=128
glow-nb bench model.onnx --shape batch=1 --size sequence=1..512 --hint sequence=128"""


@click.command(cls=ManyEngines, epilog=EXAMPLES)
@model_argument
@click.option(
    "--against",
    type=click.Choice(PEERS),
    multiple=True,
    metavar="ENGINE...",
    help=f"Engines to compare with: {', '.join(PEERS)}.  [default: those that are installed]",
)
@threads_option
@without_option
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="First dimension of every input.  [default: that of the model]",
)
@binding_options
@size_options
@seed_option
@click.option(
    "--rounds",
    type=click.IntRange(min=1, max=10_000),
    default=8,
    metavar="N",
    show_default=True,
    help="How often each engine has its turn.",
)
@click.option(
    "--seconds",
    type=FiniteRange(0, 3600),
    default=0.5,
    metavar="S",
    show_default=True,
    help="Length of a turn; at least one run.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object, times in seconds. An infinite difference is null there, and "
    "differs is true.",
)
def bench(
    model: Path,
    against: tuple[str, ...],
    threads: int | None,
    without: tuple[str, ...],
    batch: int | None,
    bindings: Bindings,
    sizes: dict[str, Any],
    seed: int,
    rounds: int,
    seconds: float,
    as_json: bool,
) -> None:
    """Time the ONNX file MODEL in glow_nb and in other engines.

    Each engine lives in a process of its own, and they are asked in turn, so that a machine whose
    speed drifts slows all of them alike. All compute in float32 on the same random inputs; outputs
    are compared. The ratio is the best other engine's shortest time over that of glow_nb: above 1
    glow_nb is faster. The ratio of the median times shows what other work on the machine does.
    With --size or --hint, sizes stay open in all engines, and the inputs are of those of --hint.
    """
    require_installed(against)
    order_for(backend_named("cpu"), without=without)  # which checks them
    peers = dict.fromkeys(against or (engine for engine in PEERS if is_installed(engine)))
    for absent in () if against else (engine for engine in PEERS if not is_installed(engine)):
        click.echo(f"{absent} is left out: not installed; pip install {absent}", err=True)
    used = threads or available_cores()
    with tempfile.TemporaryDirectory() as name:
        path, feeds = _prepare(model, bindings, batch, sizes, seed, Path(name))
        with shown(f"measuring {format_name(model.name)}", False if as_json else None):
            results = duel(
                str(path),
                feeds,
                threads=used,
                engines=(OURS, *peers),
                rounds=rounds,
                seconds=seconds,
                progress=partial(report, "turn"),
                options={"without": without, **sizes},
            )
    if results[OURS].missing:
        raise GlowError(f"{model}: glow_nb stopped: {results[OURS].missing}")
    _report(model, used, results, as_json)


def _prepare(
    model: Path,
    bindings: Bindings,
    batch: int | None,
    sizes: dict[str, Any],
    seed: int,
    folder: Path,
) -> tuple[Path, Arrays]:
    """Return the path of *model* with sizes bound that *sizes* do not keep open, and random inputs.

    The path is that of a copy in *folder* if something had to be bound, or if numbers lie in other
    files: these may be links, which other engines do not follow.
    """
    import onnx  # takes a while, which the other commands need not wait for

    from glow_nb.formats.onnx.importer.locations import external_locations
    from glow_nb.formats.onnx.importer.model import load_model
    from glow_nb.formats.onnx.importer.whole import whole_model
    from glow_nb.tools.duel.feeds import bind, random_feeds

    if model.suffix == SUFFIX:
        raise OptionError(f"{model}: IR text; other engines run only ONNX files")
    constants = bindings.constants(model)
    light = load_model(model).proto  # without large weights
    before = light.SerializeToString(deterministic=True)
    leaves_open = are_given(sizes)
    bind(light, bindings.shapes, constants, batch, leaves_open=leaves_open)
    is_changed = light.SerializeToString(deterministic=True) != before
    if leaves_open:
        _bind_hints(light, sizes)
    feeds = random_feeds(light, seed)
    if not external_locations(light) and not is_changed:
        return model.absolute(), feeds
    path = folder / "model.onnx"
    whole = whole_model(str(model))
    bind(whole, bindings.shapes, constants, batch, leaves_open=leaves_open)
    onnx.save(whole, path, save_as_external_data=whole.ByteSize() > LARGEST_FILE_BYTES)
    return path, feeds


def _bind_hints(model: onnx.ModelProto, sizes: Mapping[str, Any]) -> None:
    """Give open dimensions of *model* the sizes of the inputs that it is timed with."""
    from glow_nb.tools.duel.feeds import bind_shapes, open_names

    hints, names = sizes["hints"] or {}, open_names(model)
    for option, given in (("--size", sizes["sizes"] or {}), ("--hint", hints)):
        for name in given.keys() - names:
            raise OptionError(
                f"{option} {name}=...: the model has no open size of this name"
                f"{closest(name, names)}; it has {listed(names) or 'none'}"
            )
    missing = [name for name in names if name not in hints]
    if missing:
        example = " ".join(f"--hint {name}=1" for name in missing)
        raise OptionError(
            f"the sizes {listed(missing)} stay open, and the inputs need some: {example}; or fix "
            "them by --shape"
        )
    bind_shapes(model, hints)


def _report(model: Path, threads: int, results: dict[str, Measurement], as_json: bool) -> None:
    rows = engine_rows(results)
    ratios = ratios_of(results)
    if as_json:
        report = {
            "model": str(model),
            "threads": threads,
            "ratio": ratios.minima if ratios else None,
            "median_ratio": ratios.medians if ratios else None,
            "engines": [asdict(row) for row in rows],
        }
        click.echo(json_text(report))
        return
    click.echo(f"model {model}: {count_of(threads, 'thread')}, engines asked in turn")
    console = make_console()
    columns = ["engine", "#first", "#runs", "#min", "", "#median", "", "#difference"]
    table = make_table(console, "", columns)
    table.title = None
    for row in rows:
        if not row.missing:
            table.add_row(*_cells(row))
    print_table(console, table)
    for row in rows:
        if row.missing:
            click.echo(f"{row.engine} is left out: {row.missing}")
        elif row.differs:
            click.echo(f"{row.engine} computes something else: its outputs differ from {OURS}'s")
    if ratios is not None:
        click.echo(
            f"ratio {ratios.minima:.3f}: the best other engine's shortest time over {OURS}'s"
        )
        click.echo(f"ratio of the medians {ratios.medians:.3f}")


def _cells(row: EngineRow) -> list[str]:
    return [
        row.engine,
        duration(row.first_seconds),
        str(row.runs),
        duration(row.min_seconds),
        "" if row.relative_min is None else f"{row.relative_min:.2f} x",
        duration(row.median_seconds),
        "" if row.relative_median is None else f"{row.relative_median:.2f} x",
        "" if row.largest_difference is None else f"{row.largest_difference:.1e}",
    ]


def engine_rows(results: dict[str, Measurement]) -> list[EngineRow]:
    """Return a row for each engine; times and outputs are compared with ours."""
    ours = results[OURS]
    return [_row(engine, result, ours) for engine, result in results.items()]


def _row(engine: str, result: Measurement, ours: Measurement) -> EngineRow:
    if not result.times:
        return EngineRow(
            engine, result.first_seconds, 0.0, 0.0, 0, None, None, None, None, result.missing
        )
    difference = largest_distance(ours.outputs, result.outputs) if ours.times else None
    return EngineRow(
        engine=engine,
        first_seconds=result.first_seconds,
        min_seconds=result.min_seconds,
        median_seconds=result.median_seconds,
        runs=len(result.times),
        relative_min=result.min_seconds / ours.min_seconds if ours.times else None,
        relative_median=result.median_seconds / ours.median_seconds if ours.times else None,
        largest_difference=difference,
        differs=None if difference is None else difference > LARGEST_DIFFERENCE,
        missing="",
    )
