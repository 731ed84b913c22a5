"""``glow-nb bench``: a model in several engines, which run in turn."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from typing_extensions import override

from glow_nb.backends import backend_named
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.precision import FULL
from glow_nb.base.progress import report, shown
from glow_nb.base.schema import closest, listed
from glow_nb.base.text import format_name
from glow_nb.commands.bench_report import make_report, print_report
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.numbers import FiniteRange
from glow_nb.commands.options import (
    ExampleCommand,
    model_argument,
    seed_option,
    threads_option,
    without_option,
)
from glow_nb.commands.size_ranges import are_given, size_options
from glow_nb.network.compilation import order_for
from glow_nb.network.text_files import SUFFIX
from glow_nb.system.cores import available_cores
from glow_nb.tools.duel.contest import Measurement, duel
from glow_nb.tools.duel.engines import (
    ENGINES,
    OURS,
    PEERS,
    PRECISIONS,
    Arrays,
    is_installed,
    require_installed,
)
from glow_nb.tools.duel.entrants import entrants_of

if TYPE_CHECKING:
    import onnx

LARGEST_FILE_BYTES = 1 << 30
"""A larger model is written with its weights beside it: an ONNX file has at most 2 GiB."""


class ManyEngines(ExampleCommand):
    """A command whose ``--against`` and ``--precision`` take all of their names that follow."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_extra_args = True  # to tell a misspelt engine from a second model
        left = super().parse_args(ctx, list(_spread(args)))
        given = {"engine": ("--against", PEERS), "precision": ("--precision", PRECISIONS)}
        kinds = [
            f"no {kind} ({', '.join(names)})"
            for kind, (option, names) in given.items()
            if any(text.partition("=")[0] == option for text in args)
        ]
        if left and kinds:
            ctx.fail(f"{left[0]!r} is {' and '.join(kinds)}, and there is one MODEL")
        if left:
            ctx.fail(f"one MODEL, please; {left[0]!r} is one argument too many")
        return left


LISTS = {"--against": ENGINES, "--precision": PRECISIONS}
"""Options that take several names, and these names."""


def _spread(args: Sequence[str]) -> Iterator[str]:
    """Yield ``--against a --against b`` for ``--against a b`` and ``--against=a b``."""
    taking = ""
    for index, text in enumerate(args):
        names, option = LISTS.get(taking, ()), text.partition("=")[0]
        if text in names and args[index - 1] != taking:
            yield taking
        if option in LISTS:
            taking = option
        elif text not in names:
            taking = ""
        yield text


EXAMPLES = """\
glow-nb bench model.onnx --against onnxruntime openvino
glow-nb bench model.onnx --precision float32 bfloat16 default
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
@click.option(
    "--precision",
    "precisions",
    type=click.Choice(PRECISIONS),
    multiple=True,
    default=(FULL,),
    show_default=True,
    metavar="PRECISION...",
    help=f"Precisions of all engines: {', '.join(PRECISIONS)}. With default, each engine has its "
    "default settings.",
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
    help="Print one JSON object, times in seconds. An infinite difference or error is null "
    "there, and differs is true.",
)
def bench(
    model: Path,
    against: tuple[str, ...],
    precisions: tuple[str, ...],
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

    Each engine has a process of its own. The engines run in turn, so that a machine whose speed
    drifts slows all of them alike. All run on the same random inputs. The ratio is the shortest
    time of the fastest other engine over the shortest time of glow_nb: above 1, glow_nb is faster.
    All engines compute in the same precision, or, with --precision default, with their default
    settings. The ratio of median times shows the effect of other work on the machine. The error is
    the root mean square of the differences from the same model in float64, over that of the
    outputs. A model that takes too long in float64 is compared with glow_nb in float32. With --size
    or --hint, sizes stay open in all engines, and inputs have the sizes of --hint.
    """
    from glow_nb.tools.duel.reference import reference_of  # imports onnx, which takes a while

    require_installed(against)
    order_for(backend_named("cpu"), without=without)  # which checks them
    peers = dict.fromkeys(against or (engine for engine in PEERS if is_installed(engine)))
    for absent in () if against else (engine for engine in PEERS if not is_installed(engine)):
        click.echo(f"{absent} is left out: not installed; pip install {absent}", err=True)
    used = threads or available_cores()
    imported = [os.path.realpath(file) for file in bindings.imported]
    options = {"without": without, "imported": imported, **sizes}
    entrants = entrants_of((OURS, *peers), precisions)
    with tempfile.TemporaryDirectory() as name:
        path, feeds = _prepare(model, bindings, batch, sizes, seed, Path(name))
        with shown(f"measuring {format_name(model.name)}", False if as_json else None):
            results = duel(
                str(path),
                feeds,
                threads=used,
                engines=(OURS, *peers),
                precisions=precisions,
                rounds=rounds,
                seconds=seconds,
                progress=partial(report, "turn"),
                options=options,
            )
        _require_ours(model, results)
        reference = reference_of(str(path), feeds, results, threads=used, options=options)
    print_report(model, used, make_report(results, entrants, precisions, reference), as_json)


def _require_ours(model: Path, results: Mapping[str, Measurement]) -> None:
    """Raise GlowError if glow_nb has stopped in one of the *results*."""
    for name, result in results.items():
        if name.startswith(OURS) and result.missing:
            raise GlowError(f"{model}: {name} stopped: {result.missing}")


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
