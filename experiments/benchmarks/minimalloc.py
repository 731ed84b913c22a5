"""Does the allocator solve the public MiniMalloc sets, and how fast?

Each set asks for some hundred buffers of a real workload to be placed in 1,048,576 bytes; no greedy
order comes near. The sets are the files ``*.csv`` in ``benchmarks/asplos2024`` of
https://github.com/google/minimalloc (columns id, lower, upper and size; the capacity is in the
file's name), described by Moffitt, ASPLOS 2023, doi 10.1145/3623278.3624752::

    python -m experiments.benchmarks.minimalloc FOLDER
    python -m experiments.benchmarks.minimalloc FOLDER --smallest --seconds 60

The second line goes on below the capacity, down to the lower bound if it can.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from rich.console import Console
from rich.table import Table

from glow_nb.llir.allocate import LiveRange, Placement, Problem, in_program_order, place

COLUMNS = ("id", "lower", "upper", "size")


@dataclass(frozen=True)
class Solution:
    """What became of one set.

    Attributes:
        name: The file's name up to the capacity.
        ranges: The buffers.
        capacity: Bytes that they should fit into.
        first_fit_bytes: What placing them in program order takes.
        placement: What the allocator found.
        seconds: How long that took.
    """

    name: str
    ranges: tuple[LiveRange, ...]
    capacity: int
    first_fit_bytes: int
    placement: Placement
    seconds: float

    @property
    def is_solved(self) -> bool:
        """True if all buffers fit into the capacity without overlap."""
        return self.placement.size_bytes <= self.capacity and not overlaps(
            self.ranges, self.placement.offsets
        )


def read_set(path: Path) -> tuple[LiveRange, ...]:
    """Return the buffers in the file *path*; their lives end before ``upper``."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if not set(COLUMNS) <= set(rows.fieldnames or ()):
            raise SystemExit(f"{path}: has the columns {rows.fieldnames}; needs {COLUMNS}")
        return tuple(LiveRange(int(r["lower"]), int(r["upper"]), int(r["size"])) for r in rows)


def overlaps(ranges: Sequence[LiveRange], offsets: Sequence[int]) -> bool:
    """Return whether two of *ranges* that live together share memory, comparing every pair."""
    placed = zip(ranges, offsets, strict=True)
    return any(
        a.start < b.end
        and b.start < a.end
        and begin < other + b.size_bytes
        and other < begin + a.size_bytes
        for (a, begin), (b, other) in combinations(placed, 2)
    )


def solve(path: Path, seconds: float, smallest: bool) -> Solution:
    """Place the set in the file *path*, whose name is like ``A.1048576.csv``."""
    name, capacity = path.stem.split(".")
    ranges = read_set(path)
    problem = Problem(ranges, 1)
    first_fit = problem.attempt(in_program_order(problem)).size
    target = 0 if smallest else int(capacity)
    started = time.perf_counter()
    placement = place(ranges, alignment=1, target_bytes=target, time_limit_seconds=seconds)
    elapsed = time.perf_counter() - started
    return Solution(name, ranges, int(capacity), first_fit, placement, elapsed)


def print_results(results: Sequence[Solution]) -> None:
    """Print one line for each set, sizes as shares of its capacity."""
    table = Table(title="MiniMalloc sets; sizes as shares of the capacity")
    for title in ("set", "buffers", "lower bound", "first fit", "found", "seconds", "solved"):
        table.add_column(title, justify="left" if title == "set" else "right")
    for result in results:
        placement = result.placement
        sizes = (placement.lower_bound_bytes, result.first_fit_bytes, placement.size_bytes)
        table.add_row(
            *(result.name, str(len(result.ranges))),
            *(f"{size / result.capacity:.3f}" for size in sizes),
            *(f"{result.seconds:.2f}", "yes" if result.is_solved else "[red]no[/red]"),
        )
    Console().print(table)


def main() -> None:
    """Solve the sets that the command line asks for."""
    assert __doc__
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where the files *.csv are")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for one set")
    parser.add_argument("--smallest", action="store_true", help="go on below the capacity")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.*.csv"))
    if not paths:
        print(
            f"skipped: {options.folder} holds no sets (files such as A.1048576.csv); get them from "
            "benchmarks/asplos2024 of https://github.com/google/minimalloc"
        )
        return
    results = [solve(path, options.seconds, options.smallest) for path in paths]
    print_results(results)
    unsolved = [result.name for result in results if not result.is_solved]
    if unsolved:
        raise SystemExit(f"not solved: {', '.join(unsolved)}")


if __name__ == "__main__":
    main()
