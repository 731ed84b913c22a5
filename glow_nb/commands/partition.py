"""``glow-nb partition``: a network in parts on several devices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from glow_nb.base.errors import OptionError
from glow_nb.base.quantities import byte_count, duration
from glow_nb.base.text import format_name
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.device_example import DEVICE_EXAMPLE
from glow_nb.commands.json_text import json_text
from glow_nb.commands.models import load_one_program
from glow_nb.commands.options import (
    ExampleCommand,
    model_argument,
)
from glow_nb.commands.outputs import OutputPath
from glow_nb.commands.pictures import require_drawing
from glow_nb.commands.wording import make_console, make_table, print_table
from glow_nb.hlir.graph import Function
from glow_nb.runtime.planning.timing import Objective

if TYPE_CHECKING:
    from glow_nb.network.profile import Profile
    from glow_nb.runtime import DeviceDescription, Partitioning

OBJECTIVES = ("latency", "throughput", "memory")

EXAMPLES = """\
glow-nb partition model.onnx --devices devices.yaml
glow-nb partition model.onnx --devices devices.yaml --objective throughput --plot plan.png
glow-nb partition model.onnx --devices devices.yaml --assign 'encoder*=fast' --json"""


@click.command(cls=ExampleCommand, epilog=f"{EXAMPLES}\n{DEVICE_EXAMPLE}")
@model_argument
@click.option(
    "--devices",
    "device_file",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE.yaml",
    help="The devices: names, memory, rates and links, as in the last example.",
)
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default="latency",
    show_default=True,
    help="latency: one request is answered soonest; throughput: requests follow each other "
    "fastest; memory: the fullest device holds least.",
)
@click.option(
    "--assign",
    "assigned",
    multiple=True,
    metavar="PATTERN=DEVICE",
    help="Run nodes whose names match the pattern on this device. Repeat it for each.",
)
@click.option(
    "--measure",
    is_flag=True,
    help="Give all devices the rates of this machine, and plan by the times that kernels take on "
    "it.",
)
@click.option(
    "--plot",
    "picture",
    type=OutputPath(),
    metavar="FILE.png",
    help="Draw parts, transfers and memory to this file (needs matplotlib).",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object, with sizes in bytes and times in seconds.",
)
@binding_options
def partition(
    model: Path,
    device_file: Path,
    objective: Objective,
    assigned: tuple[str, ...],
    measure: bool,
    picture: Path | None,
    as_json: bool,
    bindings: Bindings,
) -> None:
    """Cut MODEL into parts for several devices.

    The command prints the parts with the bytes that they exchange with the host, the devices with
    their work for one request and their memory, and by how much the plan exceeds a lower bound.
    Times are estimated from the rates of the devices; memory is exact. With --measure, the whole
    network is compiled and run here on random inputs.
    """
    from glow_nb import runtime  # --help needs no planner
    from glow_nb.runtime.devices.device_file import read_devices
    from glow_nb.runtime.planning.costs import measured

    require_drawing("--plot", picture)
    devices = read_devices(device_file)
    function = load_one_program(model, bindings)
    if not isinstance(function, Function):
        raise OptionError(f"{model}: it is a program; give the graph that it was made of")
    assignment, profile = _assignments(assigned), None
    if measure:
        devices = [measured(device) for device in devices]
        profile = _profile(function, devices)
    plan = runtime.partition(
        function, devices, objective=objective, assignment=assignment, profile=profile
    )
    if picture is not None:
        from glow_nb.runtime.planning.partition_plot import draw_partitioning  # with matplotlib

        draw_partitioning(plan, picture)
        click.echo(f"wrote {picture}", err=True)
    if as_json:
        click.echo(json_text(as_plain(plan)))
    else:
        _print(plan)


def _profile(function: Function, devices: Sequence[DeviceDescription]) -> Profile:
    """Return the time of the kernels of *function* here on as many cores as the fastest device has.

    It is fed random numbers.
    """
    import glow_nb
    from glow_nb.base.random_arrays import random_array

    fastest = max(devices, key=lambda device: device.multiply_adds_per_second)
    network = glow_nb.compile(function, backend=fastest.backend, threads=fastest.cores)
    rng = np.random.default_rng(0)
    return network.profile({value.name: random_array(value.type, rng) for value in function.inputs})


def _assignments(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the device of each pattern; raise OptionError if a pattern has two."""
    found: dict[str, str] = {}
    for text in texts:
        pattern, equals, device = text.rpartition("=")
        if not (pattern and equals and device):
            raise OptionError(f"--assign {text!r}: give PATTERN=DEVICE, as 'encoder*=fast'")
        if found.setdefault(pattern, device) != device:
            raise OptionError(
                f"--assign {text!r}: {pattern!r} is to run on {found[pattern]!r} already; "
                "leave one of them out"
            )
    return found


def as_plain(plan: Partitioning) -> dict[str, Any]:
    """Return *plan* as numbers and text."""
    from glow_nb.runtime.planning.timing import busy_seconds, memory_bytes, timed_parts

    busy, used = busy_seconds(plan), memory_bytes(plan)
    return {
        "network": plan.name,
        "objective": plan.objective,
        "value": plan.value,
        "lower_bound": plan.lower_bound,
        "gap": plan.gap,
        "parts": [
            {
                "name": timed.part.name,
                "device": timed.part.device,
                "kernels": len(timed.part.program.work),
                "nodes": [n for i in timed.part.program.work for n in i.imported_names],
                "seconds": timed.part.seconds,
                "constant_bytes": timed.part.constant_bytes,
                "run_bytes": timed.part.run_bytes,
                "needs": list(timed.needs),
                "transfers": [dataclasses.asdict(transfer) for transfer in timed.transfers],
            }
            for timed in timed_parts(plan)
        ],
        "devices": [
            {
                "name": name,
                "busy_seconds": busy[name],
                "memory_used_bytes": used[name],
                "memory_bytes": device.memory_bytes,
            }
            for name, device in plan.devices.items()
        ],
    }


def _print(plan: Partitioning) -> None:
    plain = as_plain(plan)
    console = make_console()
    columns = ["part", "device", "#kernels", "#time", "#weights", "#run", "#received", "#to host"]
    table = make_table(console, "parts", columns)
    for part in plain["parts"]:
        out = sum(t["size_bytes"] for t in part["transfers"] if t["target"] is None)
        taken = sum(t["size_bytes"] for t in part["transfers"]) - out
        table.add_row(
            format_name(part["name"]),
            format_name(part["device"]),
            str(part["kernels"]),
            duration(part["seconds"]),
            byte_count(part["constant_bytes"]),
            byte_count(part["run_bytes"]),
            byte_count(taken),
            byte_count(out),
        )
    print_table(console, table)
    click.echo()
    table = make_table(console, "devices", ["device", "#parts", "#busy", "#memory", "#limit"])
    for device in plain["devices"]:
        table.add_row(
            format_name(device["name"]),
            str(sum(part["device"] == device["name"] for part in plain["parts"])),
            duration(device["busy_seconds"]),
            byte_count(device["memory_used_bytes"]),
            byte_count(device["memory_bytes"]),
        )
    print_table(console, table)
    click.echo()
    click.echo(str(plan))
