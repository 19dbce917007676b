"""The search for the smallest size."""

import pytest

from facthold.measure.capacity import find_smallest


@pytest.mark.parametrize("needed", [1, 2, 3, 40, 41, 97, 1000])
@pytest.mark.parametrize("guess", [1, 50, 1000])
def test_the_search_finds_the_smallest_size_that_is_enough(needed: int, guess: int) -> None:
    asked: list[int] = []

    def ask(x: int) -> float:
        asked.append(x)
        return float(x >= needed)

    found = find_smallest(ask, 1.0, guess, ceiling=1000, tolerance=0.0)
    assert len(asked) == len(set(asked)) < 30
    if needed == 1:
        assert (found.status, found.size) == ("search floor", None)
    else:
        assert (found.status, found.size, found.too_small) == ("found", needed, needed - 1)
    near = find_smallest(ask, 1.0, guess, ceiling=1000, tolerance=0.1)
    if near.size is not None:
        assert needed <= near.size <= max(1.1 * needed, needed + 1)


def test_a_ceiling_is_not_a_size() -> None:
    found = find_smallest(lambda x: 0.5, 0.9, 10, ceiling=64)
    assert (found.status, found.size, found.too_small) == ("search ceiling", None, 64)
    with pytest.raises(ValueError, match="floor=8, ceiling=4"):
        find_smallest(lambda x: 1.0, 0.9, 10, floor=8, ceiling=4)
