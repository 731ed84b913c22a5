"""What parts take at least, before they are made."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.runtime.planning.candidate_parts import CandidateParts
from glow_nb.runtime.planning.cuts import all_cuts
from glow_nb.runtime.planning.parts import Parts
from tests.unit.runtime.planning.test_candidate_parts import NETWORKS, fleet_for


@pytest.mark.parametrize("name", NETWORKS)
def test_a_part_takes_no_less_than_was_seen_before_it_was_made(name: str) -> None:
    fleet = fleet_for(NETWORKS[name]())
    (device,) = fleet.devices
    cuts = all_cuts(fleet.units)
    assert cuts is not None
    candidates, parts = CandidateParts(fleet.units, cuts), Parts(fleet)
    for first, last in np.argwhere(candidates.is_part).tolist():
        units = candidates.members(first, last)
        seen, made = parts.sketch(units, device), parts.make(units, device)
        assert seen.constant_bytes <= made.constant_bytes, units
        assert seen.run_bytes <= made.run_bytes, units
        assert seen.seconds(device) <= made.seconds(device) * (1 + 1e-9), units
        assert seen.program.inputs == made.program.inputs, units
        assert seen.program.outputs == made.program.outputs, units
