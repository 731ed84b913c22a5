"""The algorithm of a kernel as data: its name, and the numbers of its loops.

A node or an instruction says *what* is computed; its plan says *how*. It is
printed after the attributes, and parsed again::

    packed_mat_mul @out %y, @in %x, @in %w, @in none {...} plan direct {block = 64, rows = 6, ...}
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Self

from typing_extensions import override

from glow_nb.base.arguments import described
from glow_nb.base.errors import OptionError, SettingError, UnsupportedError
from glow_nb.base.literals import format_attributes

Setting = bool | int | str | tuple[int, ...]

MAX_SETTING = 1 << 31
MAX_ROWS = 64
"""The largest number of rows of a register tile; registers never hold more."""


def is_setting(value: object) -> bool:
    """Return whether a plan may have *value*: a whole number, a word, or several of them."""
    items = value if isinstance(value, tuple) else (value,)
    return all(isinstance(item, int | str) for item in items)


@dataclass(frozen=True)
class Plan:
    """An algorithm and its settings; plans are compared by both.

    Attributes:
        algorithm: Its name.
        settings: Names and values, in the order in which they are printed.
    """

    algorithm: str
    settings: tuple[tuple[str, Setting], ...] = ()

    def __post_init__(self) -> None:
        """Raise OptionError for what is no algorithm or no setting."""
        if not isinstance(self.algorithm, str) or not isinstance(self.settings, tuple):
            raise OptionError(
                f"Plan({described(self.algorithm)}, {described(self.settings)}): give the name of "
                "an algorithm, and settings as in Plan.of('direct', block=16)"
            )
        for name, value in self.settings:
            if not is_setting(value):
                raise OptionError(
                    f"'{name}' of plan {self.algorithm!r} is {described(value)}; give whole "
                    "numbers or words"
                )

    @classmethod
    def of(cls, algorithm: str, **settings: Setting | list[int] | None) -> Self:
        """Return the plan with these *settings*, but for those that are None."""
        given = {name: value for name, value in settings.items() if value is not None}
        return cls(
            algorithm,
            tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in given.items()),
        )

    def updated(self, **settings: Setting | list[int] | None) -> Self:
        """Return this plan with other *settings*; None removes one."""
        return type(self).of(self.algorithm, **{**dict(self.settings), **settings})

    def number(
        self, name: str, default: int | None = None, *, least: int = 1, most: int = MAX_SETTING
    ) -> int:
        """Return a setting that is a whole number from *least* to *most*.

        Raises:
            SettingError: The plan has no such number, and there is no *default*.
        """
        found = self._setting(name)
        found = default if found is None else found
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise self._lacks(name, f"a whole number from {least} to {most}", found)
        return found

    @property
    def rows(self) -> int:
        """Rows of a register tile; SettingError if the plan does not say."""
        return self.number("rows", most=MAX_ROWS)

    def word(self, name: str) -> str:
        """Return a setting that is a word; SettingError if the plan has none."""
        found = self._setting(name)
        if not isinstance(found, str):
            raise self._lacks(name, "a word", found)
        return found

    def sizes(self, name: str) -> tuple[int, ...]:
        """Return a setting that is a list of sizes; SettingError if the plan has none."""
        found = self._setting(name)
        if not isinstance(found, tuple):
            raise self._lacks(name, "a list of whole numbers", found)
        return found

    def is_set(self, name: str) -> bool:
        """Return whether a setting is there and not false."""
        return bool(self._setting(name))

    def has(self, name: str) -> bool:
        """Return whether a setting is there."""
        return self._setting(name) is not None

    def _setting(self, name: str) -> Setting | None:
        """Return the value of a setting; None if the plan has none of this *name*."""
        return dict(self.settings).get(name)

    @override
    def __str__(self) -> str:
        return f"{self.algorithm}{format_attributes(dict(self.settings))}"

    def unfit(self, reason: str) -> UnsupportedError:
        """Return the error that no kernel can be written by this plan, with the *reason*."""
        return UnsupportedError(f"plan {self}: {reason}; leave the plan out, to have one made")

    def _lacks(self, name: str, wanted: str, found: Setting | None) -> SettingError:
        near = difflib.get_close_matches(name, dict(self.settings), n=1)
        own = ", ".join(dict(self.settings)) or "none"
        instead = f"{found!r:.40}"
        if found is None:
            instead = f"no such setting{f', but {near[0]!r}' if near else f'; it has {own}'}"
        return SettingError(self, f"'{name}' must be {wanted}, got {instead}")


@dataclass(frozen=True, eq=False)
class ReadPlan(Plan):
    """A plan that records which settings are read.

    Attributes:
        asked: Their names.
    """

    asked: dict[str, None] = field(default_factory=dict, repr=False)

    @override
    def _setting(self, name: str) -> Setting | None:
        self.asked[name] = None
        return super()._setting(name)
