"""What the examples share: a task whose answer is known, and the networks that solve it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from typing_extensions import override

from experiments.real_models.shipped import ShippedFile, is_installed
from glow_nb.base.types import Array

Feeds = Mapping[str, Array]
Run = Callable[[Feeds], Mapping[str, Array]]
"""Runs a network: from its inputs to its outputs, by name."""


@dataclass(frozen=True)
class TrainedNetwork:
    """A network of a task.

    Attributes:
        file: The model.
        constants: Inputs that are the same in every run, by name.
        options: What else it is compiled with, such as ``sizes``.
    """

    file: ShippedFile
    constants: Mapping[str, Array] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What was found, beside what is true.

    Attributes:
        found: The answers of the networks, as text.
        truth: The true ones, as many.
    """

    found: Sequence[str]
    truth: Sequence[str]

    @property
    def correct(self) -> int:
        """Return how many answers are true."""
        return sum(map(str.__eq__, self.found, self.truth))

    @override
    def __str__(self) -> str:
        """Return a line for each answer, and how many are true."""
        lines = [
            found if found == truth else f"{found}   [wrong, it is: {truth}]"
            for found, truth in zip(self.found, self.truth, strict=True)
        ]
        return "\n".join([*lines, f"{self.correct} of {len(self.truth)} are correct"])


class Task(ABC):
    """A task with data and truth of its own, made without any download."""

    networks: ClassVar[Mapping[str, TrainedNetwork]]
    further_files: ClassVar[Sequence[ShippedFile]] = ()
    imported_packages: ClassVar[Sequence[str]] = ()

    @classmethod
    def missing_packages(cls) -> list[str]:
        """Return the packages that are not installed, by their names at PyPI."""
        files = [*(network.file for network in cls.networks.values()), *cls.further_files]
        missing = {file.package for file in files if not file.is_installed()}
        missing |= {package for package in cls.imported_packages if not is_installed(package)}
        return sorted(missing)

    @abstractmethod
    def solve(self, runs: Mapping[str, Run]) -> Answer:
        """Return the answer of the networks; *runs* has one for each name of ``networks``."""
