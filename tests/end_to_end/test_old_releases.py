"""Node tests of earlier releases of onnx: operators mean what they meant in their operator set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glow_nb.tools.conformance import EXPLAINED, FAILED, run_tests
from tests.old_releases import RELEASES, NoDownloadError, cases_of, form_of, is_corrected, wheel_of

pytestmark = pytest.mark.slow


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old_cases(release: str, pytestconfig: pytest.Config, tmp_path: Path) -> list[Any]:
    cache: pytest.Cache | None = getattr(pytestconfig, "cache", None)
    try:
        folder = cache.mkdir("onnx_releases") if cache else tmp_path
        return cases_of(wheel_of(release, folder), tmp_path)
    except NoDownloadError as error:
        pytest.skip(f"onnx {release} is not to be had, and its node tests DID NOT RUN: {error}")


def check(cases: list[Any], release: str, engine: str) -> None:
    """Assert that each of *cases* passes, is unsupported, or had a wrong result in *release*."""
    failed = {o.test: o.reason for o in run_tests(cases, [engine]) if o.outcome == FAILED}
    unexplained = {test for test in failed if not is_corrected(test, release)} - set(EXPLAINED)
    assert not {test: failed[test] for test in unexplained}


def test_nothing_is_wrong(old_cases: list[Any], release: str) -> None:
    check(old_cases, release, "evaluate")


def test_nothing_is_wrong_in_the_interpreter(old_cases: list[Any], release: str) -> None:
    check(old_cases, release, "interpreter")


@pytest.mark.jit
def test_nothing_is_wrong_in_machine_code(
    old_cases: list[Any], node_cases: list[Any], release: str
) -> None:
    """Forms that the tests of the installed release have are left out; those run elsewhere."""
    known = {form_of(case.model) for case in node_cases}
    check([case for case in old_cases if form_of(case.model) not in known], release, "cpu")
