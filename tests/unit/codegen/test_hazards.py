"""Barriers stand between any two calls that conflict, and nowhere without a reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import DefinitionError
from glow_nb.codegen.hazards import Access, Hazard, plan_barriers


def accesses() -> st.SearchStrategy[list[Access]]:
    access = st.builds(
        lambda space, begin, size, mode, runs: Access(space, begin, begin + size, mode, *runs),
        st.sampled_from(["arena", "bound0"]),
        st.integers(0, 40),
        st.integers(0, 12),
        st.sampled_from(["in", "in", "out", "inout"]),
        st.sampled_from([(0, 0), (0, 0), (1, 3), (2, 3), (2, 4)]),
    )
    return st.lists(access, max_size=4)


def touched(access: Access) -> set[int]:
    """Return the bytes of *access*."""
    everything = range(access.begin, access.end)
    if not access.pitch:
        return set(everything)
    return {byte for byte in everything if (byte - access.begin) % access.pitch < access.run}


def conflict(first: Access, second: Access) -> bool:
    shares = first.space == second.space and touched(first) & touched(second)
    return bool(shares) and (first.mode != "in" or second.mode != "in")


def plan_shared(calls: list[list[Access]]) -> list[Hazard | None]:
    """Return the plan for calls that all threads share."""
    return plan_barriers(calls, [False] * len(calls))


def whole(access: Access) -> Access:
    """Return the interval of *access*."""
    return replace(access, run=0, pitch=0)


def may_conflict(first: Access, second: Access) -> bool:
    """True if they conflict or at least their intervals do, in the same part of a common pitch."""
    if conflict(first, second) or not conflict(whole(first), whole(second)):
        return conflict(first, second)
    if not first.pitch or first.pitch != second.pitch:
        return True
    first_part, second_part = ({b % a.pitch for b in touched(a)} for a in (first, second))
    return bool(first_part & second_part)


@given(st.lists(accesses(), max_size=12))
def test_a_barrier_separates_every_conflicting_pair(calls: list[list[Access]]) -> None:
    plan = plan_shared(calls)
    for later in range(len(calls)):
        for earlier in range(later):
            if any(conflict(a, b) for a in calls[earlier] for b in calls[later]):
                assert any(plan[earlier + 1 : later + 1]), (earlier, later)


@given(st.lists(accesses(), max_size=12))
def test_every_barrier_names_a_conflict_since_the_one_before(calls: list[list[Access]]) -> None:
    last = 0
    for number, hazard in enumerate(plan_shared(calls)):
        if hazard:
            assert last <= hazard.earlier < number
            mode = "out" if hazard.earlier_verb == "wrote" else "in"
            shared = Access(hazard.space, hazard.begin, hazard.end, "inout")
            assert hazard.begin < hazard.end
            earlier = [a for a in calls[hazard.earlier] if a.mode in (mode, "inout")]
            pairs = [(a, b) for a in earlier for b in calls[number] if may_conflict(a, b)]
            assert any(conflict(shared, whole(a)) and conflict(shared, whole(b)) for a, b in pairs)
            last = number


@given(st.lists(st.tuples(accesses(), st.booleans()), max_size=12))
def test_one_thread_does_not_wait_for_itself(drawn: list[tuple[list[Access], bool]]) -> None:
    calls, alone = [accesses for accesses, _ in drawn], [is_alone for _, is_alone in drawn]
    plan = plan_barriers(calls, alone)
    for later in range(len(calls)):
        for earlier in range(later):
            if any(conflict(a, b) for a in calls[earlier] for b in calls[later]):
                is_one_thread = alone[earlier] and alone[later]
                assert is_one_thread or any(plan[earlier + 1 : later + 1]), (earlier, later)
    for number, hazard in enumerate(plan):
        assert hazard is None or not (alone[number] and alone[hazard.earlier])


@pytest.mark.parametrize(
    ("first", "second", "verbs"),
    [
        ("out", "in", ("wrote", "reads")),
        ("out", "inout", ("wrote", "reads")),
        ("in", "out", ("read", "writes")),
        ("out", "out", ("wrote", "writes")),
        ("in", "in", None),
    ],
)
def test_kinds_of_hazard(first: str, second: str, verbs: tuple[str, str] | None) -> None:
    calls = [[Access("arena", 0, 8, first)], [Access("arena", 4, 12, second)]]  # type: ignore[arg-type]
    expected = Hazard(0, *verbs, "arena", 4, 8) if verbs else None
    assert plan_shared(calls) == [None, expected]


def test_the_last_call_that_touched_a_byte_is_named() -> None:
    reads = [[Access("arena", 0, 4, "in")], [Access("arena", 2, 6, "in")]]
    assert plan_shared([*reads, [Access("arena", 0, 1, "out")]])[2] == Hazard(
        0, "read", "writes", "arena", 0, 1
    )
    assert plan_shared([*reads, [Access("arena", 3, 9, "out")]])[2] == Hazard(
        1, "read", "writes", "arena", 3, 6
    )


def test_touching_intervals_do_not_conflict() -> None:
    calls = [[Access("arena", 0, 8, "out")], [Access("arena", 8, 16, "inout")]]
    assert plan_shared(calls) == [None, None]


def test_spaces_are_apart() -> None:
    calls = [[Access("arena", 0, 8, "out")], [Access("bound0", 0, 8, "in")]]
    assert plan_shared(calls) == [None, None]


def test_independent_calls_take_time_in_proportion() -> None:
    calls = [[Access("arena", 8 * i, 8 * i + 8, "out")] for i in range(20_000)]
    assert not any(plan_shared(calls))


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(DefinitionError, match="not in, out or inout"):
        Access("arena", 0, 8, "output")  # type: ignore[arg-type]


def test_channels_side_by_side_are_written_without_a_barrier() -> None:
    parts = [[Access("arena", begin, 3 * 64, "out", 32, 64)] for begin in (0, 32)]
    assert plan_shared(parts) == [None, None]
    whole_tensor = [Access("arena", 0, 3 * 64, "in")]
    assert plan_shared([*parts, whole_tensor])[2]
    overlapping = [Access("arena", 16, 3 * 64, "out", 32, 64)]
    assert plan_shared([parts[0], overlapping])[1]


def test_channels_side_by_side_are_not_compared_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    overlap = Access.overlap

    def counting(self: Access, other: Access) -> tuple[int, int] | None:
        compared.append((self, other))
        return overlap(self, other)

    monkeypatch.setattr(Access, "overlap", counting)
    count, run = 1000, 32
    pitch = run * count
    parts = [[Access("arena", n * run, 3 * pitch, "out", run, pitch)] for n in range(count)]
    assert not any(plan_shared(parts))
    assert len(compared) <= count
