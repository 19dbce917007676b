"""What fits in memory: one limit, which can be set, and messages that say what to lower."""

import pytest

from facthold._util.errors import FactholdError
from facthold._util.memory import available, bytes_of, check_memory, memory_parts


def test_the_limit_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2**28 < available() < 2**50
    for given, size in {
        "500M": 500 * 2**20,
        "2g": 2**31,
        "1.5 GiB": 1.5 * 2**30,
        "1024": 1024.0,
        "3TB": 3 * 2**40,
    }.items():
        monkeypatch.setenv("FACTHOLD_MEMORY", given)
        assert available() == size
    for given in ("much", "-1G", "1e9", "8 gigs"):
        monkeypatch.setenv("FACTHOLD_MEMORY", given)
        with pytest.raises(ValueError, match=f"FACTHOLD_MEMORY={given} is no amount of memory; write it as in 8G"):
            available()


def test_what_does_not_fit_says_how_much_it_needs_and_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTHOLD_MEMORY", "1G")
    check_memory("a model", 2.0**30)
    check_memory("a model", {"d=4": 2.0**29, "T=3": 2.0**29})
    says = r"a model needs about 3 GiB of memory, and there is 1 GiB to use; lower T=3"
    with pytest.raises(FactholdError, match=says):
        check_memory("a model", {"d=4": 2.0**30, "T=3": 2.0**31})
    with pytest.raises(FactholdError, match=r"needs about 2 GiB .*; take smaller sizes"):
        check_memory("a model", 2.0**31)
    with pytest.raises(FactholdError, match="to use; split it"):
        check_memory("a file", 2.0**31, "split it")


@pytest.mark.parametrize(
    ("sizes", "largest"),
    [
        ({"N": 10**6, "d": 8, "M": 4, "scores": False}, "N=1000000"),
        ({"N": 4, "d": 10**6, "M": 4, "scores": False}, "d=1000000"),
        ({"N": 4, "d": 8, "M": 10**6, "scores": False}, "M=1000000"),
        ({"N": 4, "d": 8, "M": 4, "m": 10**6, "scores": False}, "m=1000000"),
        ({"N": 10**4, "d": 8, "M": 10**4, "scores": True}, "N=10000"),
    ],
)
def test_the_bytes_of_a_memory_grow_with_what_is_large(sizes: dict[str, int], largest: str) -> None:
    parts = memory_parts(**sizes)  # type: ignore[arg-type]
    assert max(parts, key=lambda name: parts[name]) == largest


def test_bytes_are_at_least_those_of_the_numbers_themselves() -> None:
    assert bytes_of(embeddings=10, weights=10, facts=10, scores=10, prompts=10) >= 10 * (4 + 4 + 12 + 4 + 8)
