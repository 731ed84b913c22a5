"""``glow-nb cache``: the compiled networks that are kept on the disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from glow_nb.base.errors import ModelError
from glow_nb.base.quantities import byte_count
from glow_nb.base.text import format_name
from glow_nb.commands.json_text import json_text
from glow_nb.commands.options import ExampleCommand
from glow_nb.commands.wording import make_console, make_table, print_table

if TYPE_CHECKING:
    from glow_nb.network.saved.cache import NetworkCache

EXAMPLES = """\
glow-nb cache list
glow-nb cache size
glow-nb cache verify
glow-nb cache clear"""

ACTIONS = ("list", "size", "verify", "clear")


@click.command(cls=ExampleCommand, epilog=EXAMPLES)
@click.argument("action", type=click.Choice(ACTIONS))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; sizes in bytes.")
def cache(action: str, as_json: bool) -> None:
    """Show, check or remove the networks that are kept on the disk.

    glow_nb.compile keeps the network of each model file in the folder "networks" of
    GLOW_NB_CACHE_DIR, and finds it there when the same model is compiled again. The least recently
    used ones are removed when all together take more than 4 GiB.

    list shows them, the most recently used first; size shows their total size; verify reads all
    files, compares them with their checksums, and removes damaged networks; clear removes all.
    """
    from glow_nb.network.saved.cache import NetworkCache

    networks = NetworkCache()
    actions = {"list": _list, "size": _size, "verify": _verify, "clear": _clear}
    actions[action](networks, as_json=as_json)


def _list(networks: NetworkCache, *, as_json: bool) -> None:
    kept = [(networks.origin_of(one.key), one) for one in networks.kept()]
    if as_json:
        rows = [
            {"model": model, "bytes": one.size_bytes, "used": one.used, "key": one.key}
            for model, one in kept
        ]
        click.echo(json_text({"networks": rows}))
        return
    console = make_console()
    table = make_table(console, "", ["model", "#size", "used last", "key"])
    table.title = None
    for model, one in kept:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.used))
        table.add_row(format_name(model), byte_count(one.size_bytes), used, one.key[:12])
    if kept:
        print_table(console, table)
    else:
        click.echo(f"no networks in {networks.folder}")


def _size(networks: NetworkCache, *, as_json: bool) -> None:
    kept = networks.kept()
    size = sum(network.size_bytes for network in kept)
    if as_json:
        click.echo(json_text({"networks": len(kept), "bytes": size, "limit": networks.limit_bytes}))
        return
    limit = byte_count(networks.limit_bytes)
    click.echo(f"networks {len(kept)}, {byte_count(size)} of at most {limit}, {networks.folder}")


def _verify(networks: NetworkCache, *, as_json: bool) -> None:
    from glow_nb.network.saved.files import check_sums
    from glow_nb.system.file_digests import FileDigests

    kept, damaged = networks.kept(), []
    for network in kept:
        try:
            check_sums(network.path, FileDigests(None))  # no note is believed
        except ModelError as error:
            damaged.append(str(error))
            networks.remove(network.key)
    if as_json:
        click.echo(json_text({"networks": len(kept), "damaged": damaged}))
        return
    for problem in damaged:
        click.echo(f"removed: {problem}")
    click.echo(f"networks {len(kept)}, damaged {len(damaged)}")


def _clear(networks: NetworkCache, *, as_json: bool) -> None:
    kept = networks.kept()
    networks.clear()
    size = sum(network.size_bytes for network in kept)
    if as_json:
        click.echo(json_text({"removed": len(kept), "bytes": size}))
    else:
        click.echo(f"removed {len(kept)} networks, {byte_count(size)}")
