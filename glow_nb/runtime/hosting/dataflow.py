"""A network on a host: its compiled parts, and the values between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from glow_nb.base.counted import Counted, visible_types
from glow_nb.base.errors import PartitionError
from glow_nb.base.types import TensorType
from glow_nb.runtime.hosting.hosted_device import HostedPart


class Dataflow:
    """The parts of a network, of one batch size, and which of them wait for which.

    Attributes:
        name: The name of the network.
        inputs: Name and type of what the whole takes, in order.
        outputs: Name and type of what the whole gives, in order.
        parts: Each after those whose outputs it reads.
        rows: The batch size; 1 where nothing is batched.
        first: The indices of the parts that read nothing but inputs of the whole.
        uses: For each value how many parts read it, and one more if it is an output of the whole.
        readers: For each value that a part makes, the parts that read it.
        waits: For each part, how many values of other parts it reads.
        counted: Outputs of data-dependent size.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[tuple[str, TensorType]],
        outputs: Sequence[tuple[str, TensorType]],
        parts: Sequence[HostedPart],
        rows: int = 1,
        counted: Mapping[str, Counted] | None = None,
    ) -> None:
        """Connect *parts* by the names of what they read and make.

        Raises:
            PartitionError: A value is read that nothing before makes, or there is no part.
        """
        self.name, self.rows = name, rows
        self.inputs, self.outputs, self.parts = dict(inputs), dict(outputs), tuple(parts)
        self._check()
        made = {value for part in parts for value in part.outputs}
        self.uses: dict[str, int] = dict.fromkeys(self.outputs, 1)
        self.readers: dict[str, list[int]] = {value: [] for value in made}
        self.waits: list[int] = []
        for index, part in enumerate(parts):
            read = dict.fromkeys(part.inputs)
            self.waits.append(sum(value in made for value in read))
            for value in read:
                self.uses[value] = self.uses.get(value, 0) + 1
                if value in made:
                    self.readers[value].append(index)
        self.first = [index for index, waits in enumerate(self.waits) if not waits]
        self.counted = counted or {}

    def _check(self) -> None:
        known = set(self.inputs)
        for part in self.parts:
            _require(f"{self.name!r}, part {part.deployable.name!r}", part.inputs, known)
            known.update(part.outputs)
        _require(f"{self.name!r}, its outputs", self.outputs, known)
        if not self.parts:
            raise PartitionError(f"network {self.name!r}: the plan has no parts")

    @property
    def is_open(self) -> bool:
        """Return whether its code is that of other sizes, too; then it has one part."""
        return any(type.is_open for part in self.parts for _, type in part.deployable.inputs)

    @property
    def copies(self) -> int:
        """The number of complete copies of the network on devices that take runs."""
        return min(sum(copy.device.is_up for copy in part.copies) for part in self.parts)

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
