"""The ``glow-nb`` command."""

from __future__ import annotations

import sys

try:  # these take most of a second, in which Ctrl-C may come
    import click

    from glow_nb.base.version import __version__
    from glow_nb.commands.bench import bench
    from glow_nb.commands.bisect import bisect
    from glow_nb.commands.build import build
    from glow_nb.commands.cache import cache
    from glow_nb.commands.calibrate import calibrate
    from glow_nb.commands.check import check
    from glow_nb.commands.diff import diff
    from glow_nb.commands.dump import dump
    from glow_nb.commands.errors import CleanGroup
    from glow_nb.commands.export import export
    from glow_nb.commands.info import info
    from glow_nb.commands.machine import machine
    from glow_nb.commands.opt import opt
    from glow_nb.commands.partition import partition
    from glow_nb.commands.plans import plans
    from glow_nb.commands.profile import profile
    from glow_nb.commands.quantize import quantize
    from glow_nb.commands.run import run
    from glow_nb.commands.serve import serve
    from glow_nb.commands.train import train
except KeyboardInterrupt:
    sys.stderr.write("Interrupted\n")
    sys.exit(130)  # as a command that is interrupted: see glow_nb.commands.errors


@click.group(
    cls=CleanGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="glow-nb")
def main() -> None:
    """Compile neural networks, run them, and look at every step of it.

    A MODEL is an ONNX file, or IR text in a .glow file with its constants beside it in .npz.
    Compiled kernels and networks are kept in GLOW_NB_CACHE_DIR, by default in the user's cache
    folder.
    """


COMMANDS = (
    *(run, train, calibrate, quantize, dump, opt, export, diff, bisect),
    *(check, info, plans, profile, bench, machine, partition, serve, cache, build),
)
for command in COMMANDS:
    main.add_command(command)
