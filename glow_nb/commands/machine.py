"""``glow-nb machine``: the machine row of this processor, and its measured peak rates."""

from __future__ import annotations

import dataclasses

import click

from glow_nb.base.machine_limits import MachineLimits
from glow_nb.base.quantities import byte_count, scaled
from glow_nb.commands.json_text import json_text
from glow_nb.commands.options import ExampleCommand, threads_option
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.system.cores import available_cores
from glow_nb.system.tile_registers import tile_registers

EXAMPLES = """\
glow-nb machine
glow-nb machine --row host
glow-nb machine --row zen4 --json
glow-nb machine --list
glow-nb machine --threads 1 --again"""


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@threads_option
@click.option(
    "--row", metavar="NAME", help="Print the numbers of a row instead; host for this machine's."
)
@click.option("--list", "as_list", is_flag=True, help="Print a list of all rows instead.")
@click.option("--again", is_flag=True, help="Measure again; keep the larger of both rates.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object; rates are per second."
)
def machine(
    threads: int | None, row: str | None, as_list: bool, again: bool, as_json: bool
) -> None:
    """Show this processor's machine row and its measured peak rates.

    Kernels are planned by the numbers of a machine row, which the processor selects. The peak rates
    are measured.

    Generated kernels measure fused multiply-adds in registers, the other dot instructions of the
    processor (VNNI, bfloat16, AMX tiles), and the bandwidth of reads and copies in each cache and
    in DRAM, with all threads together. This takes about a second. The rates are kept in the cache
    folder, for the roofline of glow-nb profile. Measure while nothing else runs.

    A size is that of one cache; beside it are the number of cores that share this cache, and the
    number of such caches that the threads can use. A copy counts bytes read and bytes written. A
    streamed copy uses non-temporal stores.
    """
    from glow_nb.commands.machine_rows import show_row, show_rows  # --help needs no compiler

    if as_list:
        show_rows(as_json=as_json)
    elif row is not None:
        show_row(row, as_json=as_json)
    else:
        _show_limits(threads or available_cores(), measure_again=again, as_json=as_json)


def _show_limits(threads: int, *, measure_again: bool, as_json: bool) -> None:
    """Print the row of this machine and its peak rates."""
    from glow_nb.codegen.measure_limits import machine_limits
    from glow_nb.kernels.target import Target

    limits = machine_limits(threads, measure_again=measure_again)
    if as_json:
        chosen = Target.host().chosen_row
        tiles = {"exist": tile_registers().exist, "refusal": tile_registers().refusal}
        named = {"row": chosen.machine.name, "reason": chosen.reason, "tiles": tiles}
        click.echo(json_text({**named, **dataclasses.asdict(limits)}))
        return
    for line in describe_limits(limits):
        click.echo(line)
    console = make_console()
    table = make_table(
        console, "", ["memory", "#size", "#cores", "#caches", "#read", "#copy", "#streamed"]
    )
    table.title = None
    for level in limits.levels:
        table.add_row(
            level.name,
            byte_count(level.size_bytes) if level.size_bytes else "",
            str(level.cores) if level.cores else "",
            str(level.caches) if level.size_bytes else "",
            scaled(level.read_rate, "B/s"),
            scaled(level.copy_rate, "B/s"),
            scaled(level.streamed_rate, "B/s") if level.streamed_rate else "",
        )
    print_table(console, table)


def describe_limits(limits: MachineLimits) -> list[str]:
    """Return lines about the processor and its peak rate."""
    from glow_nb.kernels.target import Target

    target = Target.host()
    from glow_nb.commands.machine_rows import describe_row

    lines = [
        f"processor {target.cpu}, {target.lanes} lanes of float32, threads {limits.threads}",
        f"peak {scaled(limits.flop_rate, 'FLOP/s')} float32, a fused multiply-add being two",
        *(
            f"peak {scaled(rate.operation_rate, 'op/s')} {rate.meaning} ({rate.instruction})"
            for rate in limits.dots
        ),
        f"tiles {_tiles()}",
    ]
    if not any(level.cores for level in limits.levels):
        lines.append("sizes of caches are assumed: this system does not tell them")
    return lines + describe_row(target)


def _tiles() -> str:
    """Return whether tile registers may be used, and why not."""
    found = tile_registers()
    if found.are_refused:
        return f"refused: {found.refusal}"
    return "yes" if found.are_usable else "none"
