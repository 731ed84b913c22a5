"""Winograd convolutions in real networks: how far the results are from the truth.

The truth is the same network in ``float64``, operator by operator. A difference is measured over
the largest output.
"""

from __future__ import annotations

import pytest

import glow_nb
from experiments.accuracy import largest_error, truth_of
from experiments.twins import NAMES, make_twin
from glow_nb.duel.feeds import random_feeds
from glow_nb.errors import OptionError

pytestmark = pytest.mark.jit

TOLERANCE = 1e-4
QUICK = ("squeezenet",)


def _cases() -> list[object]:
    return [
        pytest.param(
            name, batch, id=f"{name}-{batch}",
            marks=() if name in QUICK and batch == 1 else (pytest.mark.slow,),
        )
        for name in NAMES
        for batch in (1, 8)
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "batch"), _cases())
def test_twins_stay_near_the_truth(name: str, batch: int) -> None:
    model = make_twin(name, batch)
    feeds = random_feeds(model)
    truth = truth_of(model, feeds)
    nets = [glow_nb.compile(model, threads=threads) for threads in (1, 2)]
    for net in nets:
        assert largest_error(net.run(feeds), truth) <= TOLERANCE
    if name in QUICK:
        assert any(kernel.family == "winograd" for kernel in nets[0].kernels)
        direct = glow_nb.compile(model, threads=1, winograd="off")
        assert not any(kernel.family == "winograd" for kernel in direct.kernels)


def test_unknown_choice_is_refused() -> None:
    with pytest.raises(OptionError, match="winograd='sometimes': give one of"):
        glow_nb.compile(make_twin("squeezenet", 1), winograd="sometimes")
