"""What ``glow-nb bench`` says of engines that were asked in turn: a table for people, or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from glow_nb.base.distance import largest_distance, relative_error
from glow_nb.base.precision import FULL
from glow_nb.base.quantities import count_of, duration
from glow_nb.commands.json_text import json_text
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.tools.duel.contest import Measurement, Ratios, ratios_of
from glow_nb.tools.duel.engines import BFLOAT16, OURS, OUT_OF_THE_BOX
from glow_nb.tools.duel.entrants import Entrant, entrant_of

if TYPE_CHECKING:
    from glow_nb.tools.duel.reference import Reference

LARGEST_DIFFERENCE = 1e-3
"""Outputs of float32 whose difference, over the largest output, is larger are not the same."""

LARGEST_ROUGH_DIFFERENCE = 0.1
"""The same where one of the two computes in fewer bits: 30 times what a product of them loses."""

COLUMNS = ("engine", "precision", "#first", "#runs", "#min", "", "#median", "", "#error")


@dataclass(frozen=True)
class EngineRow:
    """The results of one engine in one precision.

    What could not be compared is None.

    Attributes:
        engine: Its name.
        precision: The precision that was asked for.
        computes: The precision that it reports.
        first_seconds: Loading or compiling, and the first run.
        min_seconds: The shortest run.
        median_seconds: The median of the runs.
        runs: The number of measured runs.
        relative_min: The shortest run over ours in this precision.
        relative_median: The median over ours.
        largest_difference: From our outputs in this precision, over the largest number in them.
        differs: Whether that is more than rounding explains.
        error: Root mean square of the differences from the reference, over that of the reference.
        missing: Why there are no times; empty if there are.
    """

    engine: str
    precision: str
    computes: str
    first_seconds: float
    min_seconds: float = 0.0
    median_seconds: float = 0.0
    runs: int = 0
    relative_min: float | None = None
    relative_median: float | None = None
    largest_difference: float | None = None
    differs: bool | None = None
    error: float | None = None
    missing: str = ""


@dataclass(frozen=True)
class BenchReport:
    """The results of all engines.

    Attributes:
        rows: One for each engine and precision.
        ratios: For each precision that was asked for; None where there was no peer, or not us.
        reference: The reference that errors are measured from.
    """

    rows: tuple[EngineRow, ...]
    ratios: Mapping[str, Ratios | None]
    reference: str


def make_report(
    results: Mapping[str, Measurement],
    entrants: Mapping[str, Entrant],
    precisions: Sequence[str],
    reference: Reference,
) -> BenchReport:
    """Return what *results* of *entrants* say; outputs are compared with ours and *reference*."""
    first = results[entrant_of(OURS, precisions[0]).name]
    rows = []
    for name, result in results.items():
        ours = results.get(entrant_of(OURS, entrants[name].precision).name, first)
        rows.append(_row(entrants[name], result, ours, reference))
    ratios = {precision: ratios_of(results, precision) for precision in precisions}
    return BenchReport(tuple(rows), ratios, reference.name)


def _row(
    entrant: Entrant, result: Measurement, ours: Measurement, reference: Reference
) -> EngineRow:
    known = (entrant.engine, entrant.precision, result.computes, result.first_seconds)
    if not result.times:
        return EngineRow(*known, missing=result.missing)
    difference = largest_distance(ours.outputs, result.outputs)
    is_rough = {ours.computes, result.computes} - {"", FULL}
    allowed = LARGEST_ROUGH_DIFFERENCE if is_rough else LARGEST_DIFFERENCE
    return EngineRow(
        *known,
        min_seconds=result.min_seconds,
        median_seconds=result.median_seconds,
        runs=len(result.times),
        relative_min=result.min_seconds / ours.min_seconds,
        relative_median=result.median_seconds / ours.median_seconds,
        largest_difference=difference,
        differs=difference > allowed,
        error=relative_error(reference.outputs, result.outputs),
    )


def print_report(model: Path, threads: int, report: BenchReport, as_json: bool) -> None:
    """Print *report* of *model* on *threads* cores, as a table or as JSON."""
    if as_json:
        click.echo(json_text(_as_plain(model, threads, report)))
        return
    click.echo(f"model {model}: {count_of(threads, 'thread')}, engines asked in turn")
    console = make_console()
    table = make_table(console, "", COLUMNS)
    table.title = None
    for row in report.rows:
        if not row.missing:
            table.add_row(*_cells(row))
    print_table(console, table)
    for line in (*_remarks(report), *map(_ratio_text, report.ratios.items())):
        click.echo(line)


def _as_plain(model: Path, threads: int, report: BenchReport) -> dict[str, object]:
    first = next(iter(report.ratios.values()))
    return {
        "model": str(model),
        "threads": threads,
        "ratio": first.minima if first else None,
        "median_ratio": first.medians if first else None,
        "ratios": {
            precision: ratios._asdict() if ratios else None
            for precision, ratios in report.ratios.items()
        },
        "reference": report.reference,
        "engines": [asdict(row) for row in report.rows],
    }


def _cells(row: EngineRow) -> list[str]:
    return [
        row.engine,
        precision_text(row.precision, row.computes),
        duration(row.first_seconds),
        str(row.runs),
        duration(row.min_seconds),
        "" if row.relative_min is None else f"{row.relative_min:.2f} x",
        duration(row.median_seconds),
        "" if row.relative_median is None else f"{row.relative_median:.2f} x",
        "" if row.error is None else f"{row.error:.1e}",
    ]


def precision_text(asked: str, computes: str) -> str:
    """Return what an engine was *asked* for and, if that is something else, what it *computes*."""
    return asked if computes in ("", asked) else f"{asked}: {computes}"


def _remarks(report: BenchReport) -> list[str]:
    """Return remarks about the rows."""
    lines = []
    for row in report.rows:
        if row.missing:
            lines.append(f"{Entrant(row.engine, row.precision).name} is left out: {row.missing}")
        elif row.differs:
            lines.append(
                f"{row.engine} computes something else: its outputs differ from {OURS}'s by "
                f"{row.largest_difference:.1e} of the largest"
            )
    lines += no_precision_texts([row.engine for row in report.rows], list(report.ratios))
    lines.append(f"error: root mean square of the differences from {report.reference}, relative")
    return lines


def no_precision_texts(engines: Sequence[str], precisions: Sequence[str]) -> list[str]:
    """Return a line for each of *engines* that lacks one of *precisions*: what it does instead."""
    lacking = [engine for engine in engines if entrant_of(engine, BFLOAT16).precision == FULL]
    return [
        f"{engine} computes no {FULL} model in {BFLOAT16}: its row is of {FULL}"
        for engine in dict.fromkeys(lacking)
        if BFLOAT16 in precisions
    ]


def _ratio_text(named: tuple[str, Ratios | None]) -> str:
    """Return the line of the ratios of a precision."""
    precision, ratios = named
    where = "with default settings" if precision == OUT_OF_THE_BOX else f"in {precision}"
    if ratios is None:
        return f"no ratio {where}: no other engine ran in this precision"
    return (
        f"ratio {ratios.minima:.3f} {where}, of the medians {ratios.medians:.3f}: the best other "
        f"engine's shortest time over {OURS}'s"
    )
