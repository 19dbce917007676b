"""The short form of `make kill`: a cheap command, killed once in every way."""

from collections.abc import Iterator

import pytest

from kill.harness import JOBS, WAYS, Undisturbed, trial, undisturbed, why_not

JOB = JOBS["edit --file"]


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    return undisturbed(JOB, (), tmp_path_factory.mktemp("kill"))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_command_that_was_stopped_and_started_again_ends_as_if_nothing_had_happened(
    way: str, well: Undisturbed
) -> None:
    if reason := why_not(JOB, way):
        pytest.skip(reason)
    assert trial(JOB, way, well, (), f"short {way}").problems == []
