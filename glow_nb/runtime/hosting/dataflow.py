"""A network on devices: its compiled parts, what goes between them, and where each is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from glow_nb.counted import Counted, visible_types
from glow_nb.errors import PartitionError
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.hosting.hosted_device import HostedDevice
from glow_nb.types import TensorType


@dataclass(frozen=True, eq=False)
class Copy:
    """A stage as it is loaded on one device.

    Attributes:
        stage: What is loaded.
        device: Where.
        key: What it is called there.
    """

    stage: Stage
    device: HostedDevice
    key: str


@dataclass(eq=False)
class Stage:
    """One part of a network.

    Attributes:
        network: The compiled part.
        seconds: How long a run of it takes: what was planned, then what was measured.
        copies: Where it is loaded; any of them may do a run.
        inputs: The names of the values that it reads, in order.
        outputs: The names of the values that it makes, in order.
    """

    network: Deployable
    seconds: float
    copies: tuple[Copy, ...] = ()
    inputs: tuple[str, ...] = field(init=False)
    outputs: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = tuple(name for name, _ in self.network.inputs)
        self.outputs = tuple(name for name, _ in self.network.outputs)

    def free_copy(self, avoided: frozenset[str] = frozenset()) -> Copy | None:
        """Return the copy on the least busy device that takes runs, or None.

        Of devices that are as busy, it is the one that was used least recently.
        """
        best: Copy | None = None
        for copy in self.copies:
            device = copy.device
            if not device.is_free or device.name in avoided:
                continue
            if best is None or (len(device.running), device.used) < (
                len(best.device.running),
                best.device.used,
            ):
                best = copy
        return best


class Dataflow:
    """A network of fixed sizes as stages, and who waits for what.

    Attributes:
        name: That of the network.
        inputs: Name and type of what the whole takes, in order.
        outputs: Name and type of what the whole gives, in order.
        stages: Each behind those whose outputs it reads.
        rows: The batch that it is for; 1 where nothing is batched.
        first: The indices of the stages that read inputs of the whole alone.
        uses: For each value how many stages read it, and one more if it is an output of the whole.
        readers: For each value that a stage makes, the stages that read it.
        waits: For each stage, how many values of other stages it reads.
        counted: Outputs of which a run decides how much counts.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[tuple[str, TensorType]],
        outputs: Sequence[tuple[str, TensorType]],
        stages: Sequence[Stage],
        rows: int = 1,
        counted: Mapping[str, Counted] | None = None,
    ) -> None:
        """Connect *stages* by the names of what they read and make.

        Raises:
            PartitionError: A value is read that nothing before makes, or there is no stage.
        """
        self.name, self.rows = name, rows
        self.inputs, self.outputs, self.stages = dict(inputs), dict(outputs), tuple(stages)
        self._check()
        made = {value for stage in stages for value in stage.outputs}
        self.uses: dict[str, int] = dict.fromkeys(self.outputs, 1)
        self.readers: dict[str, list[int]] = {value: [] for value in made}
        self.waits: list[int] = []
        for index, stage in enumerate(stages):
            read = dict.fromkeys(stage.inputs)
            self.waits.append(sum(value in made for value in read))
            for value in read:
                self.uses[value] = self.uses.get(value, 0) + 1
                if value in made:
                    self.readers[value].append(index)
        self.first = [index for index, waits in enumerate(self.waits) if not waits]
        self.counted = counted or {}

    def _check(self) -> None:
        known = set(self.inputs)
        for stage in self.stages:
            _require(f"{self.name!r}, part {stage.network.name!r}", stage.inputs, known)
            known.update(stage.outputs)
        _require(f"{self.name!r}, its outputs", self.outputs, known)
        if not self.stages:
            raise PartitionError(f"network {self.name!r}: the plan has no parts")

    @property
    def copies(self) -> int:
        """How often the whole network is loaded on devices that take runs."""
        return min(sum(copy.device.is_up for copy in stage.copies) for stage in self.stages)

    @property
    def visible_outputs(self) -> dict[str, TensorType]:
        """Name and type of each output as users see them."""
        return visible_types(self.outputs, self.counted)


def _require(subject: str, read: Iterable[str], known: AbstractSet[str]) -> None:
    """Raise PartitionError unless all values that are *read* are *known* by then."""
    absent = [value for value in read if value not in known]
    if absent:
        raise PartitionError(
            f"network {subject}: {absent} come from no input and from no part before; put parts "
            "behind those whose outputs they read"
        )
