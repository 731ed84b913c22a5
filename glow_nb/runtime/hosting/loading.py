"""Networks are loaded on devices: one program for all sizes, or one for each size of a batch."""

from __future__ import annotations

import warnings

from glow_nb.base.errors import (
    CompileError,
    GlowError,
    GlowWarning,
    ModelError,
    OptionError,
    PartitionError,
    PassError,
    UnsupportedError,
)
from glow_nb.base.open_size_error import OpenSizeError
from glow_nb.network.sized_model import SizedModel
from glow_nb.runtime.hosting.dataflow import Dataflow
from glow_nb.runtime.hosting.executor import run_once
from glow_nb.runtime.hosting.network_source import (
    Servable,
    check_batched,
    has_state,
    open_batch,
    plans_of,
    sized_source,
)
from glow_nb.runtime.hosting.open_plan import open_plan
from glow_nb.runtime.hosting.provisioner import Provisioner
from glow_nb.runtime.hosting.row_check import sizes_that_agree

NOT_FOR_ALL_SIZES = (
    CompileError,
    ModelError,
    OpenSizeError,
    PartitionError,
    PassError,
    UnsupportedError,
)
"""Why a network with open sizes is not one program on one device."""


def load_network(
    provisioner: Provisioner,
    name: str,
    network: Servable,
    max_batch: int,
    duplicates: int | None,
) -> list[Dataflow]:
    """Load *network*: for all sizes, if it leaves some open, or else for batch sizes.

    Warnings point at the caller of the host's method, who is two calls further out.
    """
    source = sized_source(network)
    if isinstance(source, SizedModel):
        try:
            plan = open_plan(name, source, max_batch)
            if plan.function.state:
                duplicates = _of_one(name, duplicates, max_batch)
            return provisioner.load_open(name, plan, duplicates)
        except NOT_FOR_ALL_SIZES as error:
            _require_batch(name, source, error)
    plans = plans_of(name, source, max_batch)
    if has_state(plans):
        duplicates = _of_one(name, duplicates, max_batch)
    return provisioner.load(name, plans, duplicates)


def _require_batch(name: str, model: SizedModel, error: GlowError) -> None:
    """Warn of what keeps *model* from all sizes; raise it if not the batch alone is open."""
    try:
        open_batch(name, model)
    except OptionError:
        raise OptionError(
            f"network {name!r}: there is no program for all of its sizes ({error}); load it "
            "with shapes="
        ) from error
    warnings.warn(
        f"network {name!r}: it is loaded for each batch size, as there is no program for all "
        f"sizes: {error}",
        GlowWarning,
        stacklevel=4,
    )


def _of_one(name: str, duplicates: int | None, max_batch: int) -> int:
    """Return the copies of a network with state; raise OptionError if more is asked for."""
    if duplicates in (1, None) and max_batch == 1:
        return 1
    raise OptionError(
        f"network {name!r}: it has state, so it has one copy and runs one request at a time; "
        f"duplicates={duplicates} and max_batch={max_batch} must be 1"
    )


def batches_that_agree(name: str, flows: list[Dataflow]) -> list[Dataflow]:
    """Return the batch sizes that give the same bits; warn of those that do not."""
    check_batched(name, flows)
    kept = sizes_that_agree(name, flows, run_once)
    if len(kept) < len(flows):
        left_out = [flow.rows for flow in flows if flow not in kept]
        warnings.warn(
            f"network {name!r}: batches of {left_out} give other bits than one of "
            f"{flows[-1].rows} and are left out; so few rows run as a batch of {kept[0].rows}",
            GlowWarning,
            stacklevel=3,
        )
    return kept
