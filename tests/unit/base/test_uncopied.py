"""What belongs to this process is neither copied nor pickled, and says what to do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import glow_nb
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.uncopied import Uncopied
from glow_nb.hlir.ops import Relu
from glow_nb.network.runner import BoundRun
from glow_nb.runtime import HostManager
from glow_nb.runtime.devices.managed_device import ManagedDevice
from glow_nb.runtime.hosting.request import Request
from glow_nb.runtime.serve.model_server import ModelServer
from glow_nb.system.background import AwaitableFuture
from glow_nb.train import Trainer

COPYING = [copy.copy, copy.deepcopy, pickle.dumps]
OWNED = [
    *(glow_nb.Network, BoundRun, Trainer, HostManager, ManagedDevice),
    *(ModelServer, AwaitableFuture, Request),
]


@pytest.mark.parametrize("copying", COPYING)
@pytest.mark.parametrize("owned", OWNED, ids=lambda owned: owned.__name__)
def test_what_belongs_to_the_process_is_refused(
    owned: type[Uncopied], copying: Callable[[object], object]
) -> None:
    whole: Any = type("Whole", (owned,), {"__init__": lambda _: None})
    whole.__abstractmethods__ = frozenset()
    with pytest.raises(UnsupportedError, match=r"cannot be copied or pickled[:,] .*; "):
        copying(whole())


@pytest.mark.parametrize("entry", [glow_nb.Step("lower"), glow_nb.Repeat(("lower",))])
def test_steps_are_copied_and_pickled(entry: object) -> None:
    again = pickle.loads(pickle.dumps(entry))
    assert again == copy.copy(entry) == copy.deepcopy(entry) == entry


@pytest.mark.jit
def test_the_pipeline_of_a_network_is_copied_and_not_pickled() -> None:
    builder = glow_nb.Builder()
    builder.save(builder.emit(Relu(builder.input("x", "float32<4>"))), "y")
    pipeline = glow_nb.compile(builder.function(), threads=1).pipeline
    assert copy.copy(pipeline) == copy.deepcopy(pipeline) == pipeline
    with pytest.raises(UnsupportedError, match=r"step '\w+' of \w+ cannot be pickled: its options"):
        pickle.dumps(pipeline)
