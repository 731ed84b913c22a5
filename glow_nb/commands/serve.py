"""``glow-nb serve``: networks over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glow_nb.base.errors import OptionError, bounded
from glow_nb.base.extras import needing
from glow_nb.base.precision import FULL
from glow_nb.base.schema import closest, listed
from glow_nb.base.text import format_name
from glow_nb.commands.bindings import Bindings, binding_options
from glow_nb.commands.device_example import DEVICE_EXAMPLE
from glow_nb.commands.numbers import FiniteRange
from glow_nb.commands.options import ExampleCommand, precision_options, without_option
from glow_nb.commands.size_ranges import size_options

if TYPE_CHECKING:
    from glow_nb.runtime import DeviceDescription
    from glow_nb.runtime.serve.model_server import ModelServer, ServedModel

EXAMPLES = """\
glow-nb serve models/
glow-nb serve resnet50.onnx mobilenet.onnx --port 9000 --devices devices.yaml --duplicates 2
glow-nb serve models/ --address 0.0.0.0 --token-file token.txt --max-batch 8 --max-delay 2
glow-nb serve encoder.onnx --shape sequence=128 --constant temperature=0.7
glow-nb serve encoder.onnx --size sequence=1..512 --hint sequence=64 --max-batch 8"""

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command(cls=ExampleCommand, epilog=f"{EXAMPLES}\n{DEVICE_EXAMPLE}")
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@binding_options
@size_options
@click.option("--address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    default=8000,
    show_default=True,
    help="Port to listen on; 0 for any free port.",
)
@click.option(
    "--devices",
    "device_file",
    type=click.Path(path_type=Path),
    metavar="FILE.yaml",
    help="The devices: names, kinds, cores and memory, as in the last example.  [default: all "
    "cores of this process]",
)
@click.option(
    "--duplicates",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Copies of each model, on different devices.",
)
@click.option(
    "--max-batch",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Rows of requests that run together, for models whose leading size is open, if their "
    "other sizes are the same.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    metavar="N",
    help="Rows of one request, for models whose leading size is open. With --max-batch, more rows "
    "than that run one batch after the other.",
)
@click.option(
    "--max-delay",
    type=FiniteRange(0, 3_600_000),
    default=0.0,
    show_default=True,
    metavar="MS",
    help="Milliseconds that a batch waits for more rows.",
)
@click.option(
    "--max-queued",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Requests to a model that may wait; more are refused.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    metavar="MIB",
    help="Largest body of a request, in MiB; a larger one is refused.",
)
@click.option(
    "--max-bodies",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="Largest sum of the bodies of all requests in flight, in MiB. [default: 8 times "
    "--max-body]",
)
@click.option(
    "--timeout",
    type=FiniteRange(0, 1_000_000_000, min_open=True),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds that a request may take; then its answer is the status 504.",
)
@click.option(
    "--stop-timeout",
    type=FiniteRange(0, 86_400, min_open=True),
    default=8.0,
    show_default=True,
    metavar="S",
    help="Seconds that requests in flight have to end when the server is stopped; then they get "
    "the status 503.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the token that clients must send (Authorization: Bearer TOKEN).",
)
@without_option
@precision_options
def serve(
    models: tuple[Path, ...],
    bindings: Bindings,
    sizes: dict[str, Any],
    address: str,
    port: int,
    device_file: Path | None,
    duplicates: int,
    max_batch: int,
    max_rows: int,
    max_delay: float,
    max_queued: int,
    max_body: int,
    max_bodies: int | None,
    timeout: float,
    stop_timeout: float,
    token_file: Path | None,
    without: tuple[str, ...],
    precision: str,
    keep: tuple[str, ...],
) -> None:
    """Serve MODELS over HTTP by the Open Inference Protocol v2.

    MODELS are ONNX files or IR text (.glow), and folders with NAME.onnx or NAME/VERSION/model.onnx.
    If the leading size of all inputs is open, a request may have any number of rows, up to
    --max-rows. Other sizes may be open, too: one program runs all of them, with ranges by --size
    and an example by --hint. --shape fixes a size. Each of these options, and --constant, applies
    to the models that have the size or input.
    SIGTERM and Ctrl-C stop the server when the requests in flight are answered, at the latest after
    --stop-timeout; a second Ctrl-C stops it at once.
    """
    _require_extra()
    from glow_nb.runtime.devices.device_file import read_devices
    from glow_nb.runtime.hosting.host import HostManager
    from glow_nb.runtime.serve.limits import Limits
    from glow_nb.runtime.serve.model_server import ModelServer
    from glow_nb.runtime.serve.model_source import LoadOptions
    from glow_nb.runtime.serve.repository import ModelRepository
    from glow_nb.runtime.serve.server import listen, make_server, serve

    repository = ModelRepository(models)
    token = None if token_file is None else _token(token_file)
    limits = Limits(
        body_bytes=max_body << 20,
        bodies_bytes=_max_bodies(max_body, max_bodies) << 20,
        request_seconds=timeout,
        stop_seconds=stop_timeout,
    )
    devices = [_this_process()] if device_file is None else read_devices(device_file)
    devices = [_compiled_so(device, without, precision, keep) for device in devices]
    listening = listen(address, port)
    options = LoadOptions(
        duplicates,
        max_batch,
        max_delay / 1000,
        max_rows,
        bindings.shapes,
        bindings.constants_for,
        sizes["sizes"] or {},
        sizes["hints"] or {},
    )
    with listening, HostManager(devices, max_queued=max_queued) as host:
        served = ModelServer(host, repository, options)
        _load(served, [*bindings.names, *options.sizes, *options.hints])
        _show(served)
        if token is None and address not in LOOPBACK:
            click.echo(
                f"Warning: everyone who can reach {address} can use the server; --token-file makes "
                "it require a token",
                err=True,
            )
        place, chosen, *_ = listening.getsockname()
        shown = f"[{place}]" if ":" in place else place
        click.echo(
            f"serving {', '.join(map(format_name, served.served))} on http://{shown}:{chosen}"
        )
        stopping = serve(make_server(served, limits, token), listening)
        host.close(max(0.0, limits.stop_seconds - stopping))
    click.echo("stopped")


def _require_extra() -> None:
    """Raise OptionError unless what the server needs is installed."""
    with needing("serve", "serve"):
        import prometheus_client as _metrics  # noqa: F401 - is it there?
        import starlette as _pages  # noqa: F401
        import uvicorn as _server  # noqa: F401


def _max_bodies(max_body: int, max_bodies: int | None) -> int:
    """Return what all bodies may have, which is enough for one."""
    if max_bodies is None:
        return 8 * max_body
    if max_bodies < 2 * max_body:
        raise OptionError(
            f"--max-bodies={max_bodies}: must be at least {2 * max_body}, twice --max-body, as a "
            "compressed body counts twice; give more, or a smaller --max-body"
        )
    return max_bodies


def _compiled_so(
    device: DeviceDescription, passes: tuple[str, ...], precision: str, keep: tuple[str, ...]
) -> DeviceDescription:
    """Return *device* with *passes* left out of what is compiled for it, in *precision*.

    What the device's own options say of the precision counts unless another one is asked for.
    """
    from glow_nb.runtime.deploy import backend_of

    options = dict(device.options)
    if passes:
        options["without"] = [*device.without, *passes]
    if precision != FULL:
        options["precision"] = precision
    if keep:
        options["keep"] = [*device.keep, *keep]
    changed = dataclasses.replace(device, options=options)
    backend_of(changed)
    return changed


def _this_process() -> DeviceDescription:
    """Return the device that a server has if it is given none."""
    from glow_nb.base.memory_limit import memory_limit
    from glow_nb.runtime import DeviceDescription
    from glow_nb.system.cores import available_cores

    cores, limit = available_cores(), memory_limit()
    if limit is None:
        return DeviceDescription("local", cores=cores)
    return DeviceDescription("local", cores=cores, memory_bytes=limit.size_bytes * 3 // 4)


def _load(served: ModelServer, given: Sequence[str]) -> None:
    """Load all models; those that cannot be loaded are reported, unless none can be.

    Names that are *given* by options must be those of a model.
    """
    errors = served.load_all()
    if not served.served:
        raise errors[0]
    for error in errors:
        click.echo(f"Warning: not loaded: {error}", err=True)
    models = [model for versions in served.served.values() for model in versions.values()]
    known = {name for model in models for name in model.source.names}
    unknown = [name for name in given if name not in known]
    if unknown and not errors:
        raise OptionError(
            f"{unknown[0]!r} is given by --shape, --constant, --size or --hint, but no model has "
            f"an open size or an input of that name{closest(unknown[0], known)}; they have "
            f"{listed(sorted(known))}"
        )


def _show(served: ModelServer) -> None:
    """Say what is served: each version of each model, with its inputs, outputs and rows."""
    for name, versions in served.served.items():
        for version, model in versions.items():
            types = " -> ".join(
                ", ".join(f"{format_name(key)}: {type}" for key, type in side.items()) or "nothing"
                for side in (model.inputs, model.outputs)
            )
            line = f"{format_name(name)}, version {version}: {types}; {_rows(model)}"
            click.echo(bounded(line))
        first = next(iter(versions.values()))
        if first.file.configuration is not None:
            click.echo(
                f"{format_name(name)}: {first.file.configuration.name} is ignored; options of this "
                "command say how models are served"
            )


def _rows(model: ServedModel) -> str:
    """Return how many rows a request to *model* may have."""
    if model.max_rows:
        together = f"up to {model.max_batch} together" if model.max_batch > 1 else "one by one"
        if model.source.is_open and model.max_batch == 1:
            return f"requests of 1 to {model.max_rows} rows, which run as they are"
        return f"requests of 1 to {model.max_rows} rows, which run {together}"
    if model.source.is_open:
        note = f", since {model.source.note}" if model.source.note else ""
        return f"requests of any open sizes, one by one{note}"
    if model.source.note:
        return f"requests of one row, since {model.source.note}"
    return "requests of exactly these sizes"


def _token(path: Path) -> str:
    """Return the token in the file *path*; it is never shown."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise OptionError(
            f"{path}: the token must be of ASCII letters; make another one"
        ) from error
    if not text or not text.isprintable() or " " in text:
        raise OptionError(f"{path}: must hold one line, without spaces: the token")
    return text
