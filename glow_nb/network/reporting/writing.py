"""``net.report``: a network, or two of them side by side, as a page."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from glow_nb.base.arguments import as_path, described, whole_number
from glow_nb.base.distance import decibels, distance, relative_error
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.feeds import Feeds
from glow_nb.base.precision import PrecisionReport
from glow_nb.base.quantities import byte_count
from glow_nb.base.table import Table as PrintedTable
from glow_nb.base.text import format_name
from glow_nb.base.types import Array
from glow_nb.base.version import __version__
from glow_nb.network.reporting.measuring import Measured, Subject, measured, random_feeds
from glow_nb.network.reporting.networks import ReportedNetwork
from glow_nb.network.reporting.parts import part_of
from glow_nb.network.reporting.programs import (
    MOST_PROGRAMS,
    ShownProgram,
    functions_of,
    programs_of,
)
from glow_nb.network.views import NetworkViews
from glow_nb.report.comparison import compared
from glow_nb.report.data import Compilation, Report, Table
from glow_nb.report.page import read_page, write_page
from glow_nb.report.room import Room
from glow_nb.system.replaced_files import check_writable

Facts = Mapping[str, str]


def write_report(
    network: ReportedNetwork,
    path: str | os.PathLike[str],
    *,
    inputs: Feeds | None,
    runs: int,
    against: ReportedNetwork | str | os.PathLike[str] | None,
    drift: object,
    titles: tuple[str, str],
    facts: tuple[Facts, Facts],
) -> None:
    """Do what :meth:`glow_nb.Network.report` does, with *titles* and *facts* of both networks."""
    place, runs = as_path(path), whole_number("runs", runs, 0)
    _check(network, inputs, against, titles[0])
    check_writable(place)
    other, accuracy, page = None, None, Path()
    if isinstance(against, str | os.PathLike):
        page, against = as_path(against), None
        other = _read(page)  # before anything takes time
    networks = [network] if against is None else [network, against]
    subjects = [Subject(each, programs_of(each)) for each in networks]
    tables = (_drift(drift), ())
    times = measured(subjects, inputs, runs)
    share = 1 if other is None and against is None else 2
    given = zip(subjects, times, titles, facts, tables, strict=False)
    made = [compilation_of(*own, share=share) for own in given]
    one = made[0]
    if against is not None:
        other, accuracy = made[1], accuracy_of(subjects[0], against, inputs)
    elif other is not None and other.title == one.title:
        other = replace(other, title=f"{other.title} in {format_name(page.name)}")
    if other is None:
        write_page(Report(one.title, __version__, (one,)), place)
        return
    other, one = told_apart(other, one)
    comparison = compared(other, one, accuracy)
    title = f"{other.title} and {one.title}"
    write_page(Report(title, __version__, (other, one), comparison), place)


def _check(network: object, inputs: Feeds | None, against: object, title: object) -> None:
    """Raise OptionError if one of these has no meaning."""
    if against is not None and not isinstance(against, NetworkViews | str | os.PathLike):
        raise OptionError(
            f"against={described(against)}: give a compiled network, or the path of a page that a "
            "report was written to"
        )
    if not isinstance(title, str):
        raise OptionError(f"title={described(title)}: give a text")
    if inputs is not None and functions_of(network):
        raise OptionError(
            "inputs=...: a module has several functions, which take other inputs; report one of "
            "them, as by net.functions[name].report(...)"
        )


def _read(path: Path) -> Compilation:
    """Return the last compilation of the page *path*: of a comparison, the newer one."""
    return read_page(path).compilations[-1]


def compilation_of(
    subject: Subject,
    times: Sequence[Measured],
    title: str,
    facts: Facts,
    tables: Sequence[Table] = (),
    *,
    share: int = 1,
) -> Compilation:
    """Return a network level by level, for a page that *share* compilations share.

    *times* are those of its programs, and *tables* are shown with the first one.
    """
    programs = subject.programs
    shown = programs[:MOST_PROGRAMS]
    parts = tuple(
        part_of(program, time, Room(len(shown) * share), tables if number == 0 else ())
        for number, (program, time) in enumerate(zip(shown, times, strict=False))
    )
    name = programs[0].network.name
    said = {**facts, **_facts(subject.network, programs)}
    return Compilation(title or name, tuple(said.items()), parts, len(programs) - len(shown))


def told_apart(*pair: Compilation) -> list[Compilation]:
    """Return two compilations; if they have one title, the first fact that differs is behind it."""
    known = [dict(each.facts) for each in pair]
    names = known[0] if pair[0].title == pair[1].title else ()
    name = next((name for name in names if known[0][name] != known[1].get(name)), None)
    if name is None:
        return list(pair)
    return [
        replace(each, title=f"{each.title}, {name} {facts.get(name, 'none')}")
        for each, facts in zip(pair, known, strict=True)
    ]


def _facts(network: ReportedNetwork, programs: Sequence[ShownProgram]) -> Facts:
    """Return what a network was compiled for, in words."""
    first = programs[0].network
    whole = first if functions_of(network) else network
    return {
        **{f"input {format_name(name)}": str(type) for name, type in whole.inputs.items()},
        **{f"output {format_name(name)}": str(type) for name, type in whole.outputs.items()},
        "threads": str(network.threads),
        "precision": _precision([one.network.precision for one in programs]),
        "programs": str(len(programs)),
        "calls of kernels": str(sum(len(one.network.kernels) for one in programs)),
        "constants": byte_count(sum(one.network.memory.constant_bytes for one in programs)),
        "glow_nb": __version__,
    }


def _precision(programs: Sequence[PrecisionReport]) -> str:
    """Return the precision of the first of *programs*, with the integer weights of all."""
    count = sum(one.integer_instructions for one in programs)
    return replace(programs[0], integer_instructions=count).title


def _drift(drift: object) -> tuple[Table, ...]:
    """Return what ``glow_nb.quant.drift`` returned as a table."""
    if drift is None:
        return ()
    found = getattr(drift, "table", None)
    if not isinstance(found, PrintedTable):
        raise OptionError(f"drift={described(drift)}: give what glow_nb.quant.drift returned")
    note = "dB: ten times the logarithm of the value's energy over that of its error."
    rows = tuple(tuple("no error" if cell == "inf" else cell for cell in row) for row in found.rows)
    return (Table("Drift from floats", found.columns, rows, note),)


def accuracy_of(subject: Subject, other: ReportedNetwork, inputs: Feeds | None) -> Table | None:
    """Return how far the outputs of the *subject* and another network are apart on the same inputs.

    None for modules of functions, networks with states, which a run would change, those with other
    inputs, where no output is of both, and where a run on random numbers fails.

    Raises:
        GlowError: As :meth:`Network.run`, for *inputs* that are given.
    """
    one = subject.network
    if functions_of(one) or functions_of(other) or len(one.state) or len(other.state):
        return None
    if set(one.inputs) != set(other.inputs):
        return None
    try:
        feeds = random_feeds(one, subject.programs) if inputs is None else inputs
        expected, found = other.run(feeds), one.run(feeds)
    except GlowError:
        if inputs is not None:
            raise
        return None
    rows = tuple(
        _row(name, array, found[name]) for name, array in expected.items() if name in found
    )
    said = "random numbers" if inputs is None else "the given arrays"
    note = f"Both ran on {said}. The outputs of A are the reference."
    columns = ("output", "#relative error", "#largest difference", "#dB")
    return Table("Outputs of both", columns, rows, note) if rows else None


def _row(name: str, expected: Array, found: Array) -> tuple[str, ...]:
    if expected.shape != found.shape:
        return name, "", "other shapes", ""
    largest, error = distance(expected, found), decibels(expected, found)
    if not largest:
        return name, "0", "0", "no error"
    return (
        name,
        f"{relative_error([expected], [found]):.3g}",
        f"{largest:.3g}",
        f"{error:.1f}" if math.isfinite(error) else "",
    )
