"""The comment directives of a golden case, and what it means for output to satisfy them.

A case is IR text whose ``//`` comments say what is done and what must come out:

``// PASSES: a, b``     run these passes in order; without it the text makes a round trip. Options
                         stand after a name: ``a{size = 2}``
``// CHECK: text``      a later line of the output contains *text*
``// CHECK-NEXT: text`` the line right after the last match contains *text*
``// CHECK-NOT: text``  no line between the matches around it contains *text*
``// CHECK-LABEL: text`` cuts the output: what stands between two labels is searched on its own
``// ERROR: 3:29: text`` parsing or running fails at that line and column (or anywhere, if the
                         position is left out) with a message that contains *text*

Runs of blanks compare equal, and ``{{...}}`` inside a CHECK is a regular expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from typing_extensions import override

from glow_nb.base.steps import Step, read_steps


class Directive(Enum):
    """What a CHECK comment asks for; the value is how it is written."""

    CHECK = "CHECK"
    NEXT = "CHECK-NEXT"
    NOT = "CHECK-NOT"
    LABEL = "CHECK-LABEL"


@dataclass(frozen=True)
class Check:
    """One CHECK comment and the line of the case that holds it."""

    directive: Directive
    text: str
    line: int

    def matches(self, line: str) -> bool:
        """Tell whether *line* of the output contains what this check asks for."""
        parts = re.split(r"\{\{(.*?)\}\}", _squeeze(self.text))
        pattern = "".join(
            f"(?:{part})" if index % 2 else re.escape(part) for index, part in enumerate(parts)
        )
        return re.search(pattern, _squeeze(line)) is not None

    @override
    def __str__(self) -> str:
        return f"line {self.line}: {self.directive.value}: {self.text}"


@dataclass(frozen=True)
class Case:
    """The directives of one golden file."""

    passes: tuple[Step, ...]
    error: str | None
    checks: tuple[Check, ...]


class CaseError(Exception):
    """The case itself is written wrongly."""


class MismatchError(Exception):
    """The output does not satisfy the checks; the message shows where."""


_COMMENT = re.compile(r"\s*//\s*(PASSES|ERROR|CHECK[A-Z-]*):(.*)")


def read_case(text: str) -> Case:
    """Collect the directives of *text*; raise CaseError for one that is unknown or misplaced."""
    passes: list[Step] = []
    errors: list[str] = []
    checks: list[Check] = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _COMMENT.match(line)
        if match is None:
            continue
        word, argument = match[1], match[2].strip()
        if not argument:
            raise CaseError(f"line {number}: {word} says nothing")
        if word == "PASSES":
            passes += read_steps(argument, f"line {number}")
        elif word == "ERROR":
            errors.append(argument)
        else:
            checks.append(_read_check(word, argument, number, checks))
    if len(errors) > 1 or (errors and checks):
        raise CaseError("a case expects either one ERROR or any number of CHECKs")
    return Case(tuple(passes), errors[0] if errors else None, tuple(checks))


def _read_check(word: str, argument: str, line: int, before: list[Check]) -> Check:
    if word not in {directive.value for directive in Directive}:
        raise CaseError(f"line {line}: unknown directive {word}")
    directive = Directive(word)
    follows = before and before[-1].directive is not Directive.NOT
    if directive is Directive.NEXT and not follows:
        raise CaseError(f"line {line}: CHECK-NEXT needs a CHECK, -NEXT or -LABEL right before it")
    return Check(directive, argument, line)


def verify_checks(output: str, checks: tuple[Check, ...]) -> None:
    """Raise MismatchError unless *output* satisfies *checks*, read in order."""
    lines = output.splitlines()
    blocks = _blocks(checks)
    starts = [0]
    for label, _ in blocks[1:]:
        assert label is not None
        starts.append(_find(label, lines, starts[-1], len(lines)) + 1)
    ends = [start - 1 for start in starts[1:]] + [len(lines)]
    for (_, inside), start, end in zip(blocks, starts, ends, strict=True):
        _verify_block(lines, start, end, inside)


def _blocks(checks: tuple[Check, ...]) -> list[tuple[Check | None, list[Check]]]:
    blocks: list[tuple[Check | None, list[Check]]] = [(None, [])]
    for check in checks:
        if check.directive is Directive.LABEL:
            blocks.append((check, []))
        else:
            blocks[-1][1].append(check)
    return blocks


def _verify_block(lines: list[str], start: int, end: int, checks: list[Check]) -> None:
    """Match *checks* inside ``lines[start:end]``; *position* is the first line not yet matched."""
    position = start
    forbidden: list[Check] = []
    for check in checks:
        if check.directive is Directive.NOT:
            forbidden.append(check)
            continue
        is_next = check.directive is Directive.NEXT
        found = _find(check, lines, position, min(position + 1, end) if is_next else end)
        _forbid(forbidden, lines, position, found)
        forbidden = []
        position = found + 1
    _forbid(forbidden, lines, position, end)


def _find(check: Check, lines: list[str], start: int, end: int) -> int:
    for index in range(start, end):
        if check.matches(lines[index]):
            return index
    raise MismatchError(
        f"{check}\nis not in the output, searched from the mark on:\n{_show(lines, start)}"
    )


def _forbid(forbidden: list[Check], lines: list[str], start: int, end: int) -> None:
    for check in forbidden:
        for index in range(start, end):
            if check.matches(lines[index]):
                raise MismatchError(
                    f"{check}\nis in the output, at the mark:\n{_show(lines, index)}"
                )


def _show(lines: list[str], mark: int) -> str:
    shown = [f"{'>' if index == mark else ' '} {line}" for index, line in enumerate(lines)]
    return "\n".join(shown if mark < len(lines) else [*shown, "> (end)"])


def _squeeze(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text.strip())
