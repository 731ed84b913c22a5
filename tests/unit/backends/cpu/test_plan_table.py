"""The table of candidates: what is chosen, why, and the names of layers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import glow_nb
from glow_nb.backends.cpu.algorithms import ALGORITHMS, Candidate
from glow_nb.backends.cpu.algorithms.explain import PlanTable
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.base.errors import OptionError
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import Target
from tests.unit.backends.cpu.plan_samples import convolution, plans_of

ROOT = Path(__file__).parents[4]


def test_a_table_says_which_layers_would_be_measured() -> None:
    tuned = glow_nb.plans(convolution(), threads=1, tune=True)
    assert "best estimate; tune=True measures" in str(tuned)
    assert "chosen" not in str(tuned)
    forced = glow_nb.plans(convolution(), threads=1, tune=True, plan={"conv1": "direct"})
    assert "chosen" in str(forced)


def test_the_table_says_what_is_chosen_and_why() -> None:
    table = glow_nb.plans(convolution(), threads=1)
    assert list(table) == ["conv1"]
    notes = {one.note for one in table["conv1"].weighed}
    assert "chosen" in notes
    assert "conv1  convolution  " in str(table)
    forced = glow_nb.plans(convolution(), threads=1, plan={"conv1": "direct"})
    assert forced["conv1"].chosen.plan.algorithm == "direct"
    assert "left out by plan" in {one.note for one in forced["conv1"].weighed}
    assert "conv1" in table
    assert "conv" not in table
    assert table.get("conv") is None
    with pytest.raises(OptionError, match="no layer 'conv'.*did you mean 'conv1'"):
        table["conv"]
    with pytest.raises(OptionError, match="no layer 3 is a convolution"):
        table[3]  # type: ignore[index]


def test_a_layer_has_the_names_of_all_nodes_that_went_into_it() -> None:
    plain = convolution(16, 1, 4)
    folded = plain.with_nodes(plain.nodes, {"conv1": ("conv1", "norm")})
    table = glow_nb.plans(folded, threads=1)
    assert list(table) == ["norm"]
    assert table["conv1"] is table["norm"]
    assert table["norm"].names == ("norm", "conv1")
    same = {"conv1": "direct", "norm": "direct {}"}
    forced = glow_nb.plans(folded, threads=1, plan=same)["norm"].chosen
    assert forced.plan.algorithm == "direct"
    with pytest.raises(OptionError, match=r"\['conv1', 'norm'\] are names of one layer"):
        glow_nb.plans(folded, threads=1, plan={**same, "norm": "not direct"})
    with pytest.raises(OptionError, match=r"no layer 'fc' .*product; those are \['norm'\]"):
        table["fc"]
    layers = [replace(table["norm"], name=name) for name in ("left", "right")]
    with pytest.raises(OptionError, match=r"'norm' went into several layers.*\['left', 'right'\]"):
        PlanTable(layers)["norm"]


def test_the_page_has_the_estimates_of_a_layer() -> None:
    page = (ROOT / "docs" / "plans.md").read_text(encoding="utf-8")
    target, layer = Target.of(ROWS["zen3"]), "batch_normalization_1"
    cycles: list[float] = []
    for said in (None, {layer: "not winograd"}):
        backend = CpuBackend(target, CpuOptions(plan=said))
        model = ROOT / "experiments" / "digits.onnx"
        chosen = glow_nb.plans(model, backend=backend, shapes={"batch": 1})[layer].chosen
        assert f"`{chosen.plan} {chosen.cycles:.0f}" in page
        cycles.append(chosen.cycles)
    assert f"the estimate is {cycles[1] / cycles[0]:.2f} times" in page


def test_an_unknown_argument_of_plans_is_refused() -> None:
    with pytest.raises(OptionError, match=r"plans\(\) has no argument 'threds'"):
        glow_nb.plans(convolution(), threds=1)


def test_a_function_is_asked_once_for_the_table() -> None:
    asked: list[str] = []

    def first(layer: str, candidates: Sequence[Candidate]) -> Candidate:
        asked.append(layer)
        return candidates[0]

    glow_nb.plans(convolution(), plan=first)
    assert asked == ["conv1"]


def test_the_page_says_which_settings_candidates_have() -> None:
    page = (ROOT / "docs" / "howto" / "cost_models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`,? ?)+) \| (none|(?:`\w+`,? ?)+) \|$", page, re.M)
    said = {
        algorithm: re.findall(r"`(\w+)`", settings)
        for algorithms, settings in rows
        for algorithm in re.findall(r"`(\w+)`", algorithms)
    }
    assert set(said) == set(ALGORITHMS)
    for function in (convolution(), convolution(256, 1), convolution(16, group=16)):
        for each in plans_of(function).weighed:
            plan = each.candidate.plan
            assert [name for name, _ in plan.settings] == said[plan.algorithm]
