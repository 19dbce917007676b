"""Truncation: chosen on one half and judged on the other, on rows that agree and on rows that do not."""

from typing import Any

import pytest

from facthold.lab.registry import claim, figure
from facthold.studies.lm.truncation import MEASURES, LmTruncation, best_cut, chosen, on_half, says

N = 60
PRICE = {"perplexity": 20.0, "The capital of X is": 0.9, "The capital city of X is called": 0.5}


def hits(share: float, half: int | None = None) -> dict[str, str]:
    """So many facts said, spread evenly; of one half alone, where it is named."""
    said = ["1" if (i // 2) % 10 < 10 * share and half in (None, i % 2) else "0" for i in range(N)]
    return dict.fromkeys(MEASURES, "".join(said))


def row(layer: int, **cuts: dict[str, str]) -> dict[str, Any]:
    named = {name.replace("_", " "): value for name, value in cuts.items()}
    return {
        "layer": layer, "capitals": ["x"] * N, "whole": hits(0.1), "whole_price": PRICE, "cuts": named,
        "prices": dict.fromkeys(named, PRICE),
    }  # fmt: skip


def test_it_holds_where_the_other_half_agrees_and_fails_where_it_does_not() -> None:
    judge = claim("lm-truncation").judge
    rows = [row(0, mlp_0=hits(0.1)), row(1, mlp_0=hits(0.2), attention_0=hits(0.6)), row(2, mlp_0=hits(0.3))]
    judged = judge(rows)
    assert judged.verdict == "holds"
    assert "layer 1, attention removed" in judged.measured
    assert "price: perplexity 20 to 20" in judged.measured
    assert judge([row(0, mlp_0=hits(0.1)), row(1, mlp_0=hits(0.1))]).verdict == "fails"
    # a cut that is good on the half that chose it, and bad on the other
    over = [row(0, mlp_0=hits(1.0, half=0)), row(1, mlp_0=hits(1.0, half=1))]
    assert judge(over).verdict == "fails"
    slight = hits(0.1) | {"fact": "11" + hits(0.1)["fact"][2:20] + "11" + hits(0.1)["fact"][22:-2] + "11"}
    assert judge([row(0, mlp_0=slight)]).verdict == "not decided"


def test_the_rule_sees_its_own_half_alone() -> None:
    rows = [row(0, mlp_0=hits(1.0, half=0)), row(1, mlp_0=hits(1.0, half=1), W_O_4=hits(0.0))]
    assert [chosen(rows, half)[0]["layer"] for half in (0, 1)] == [0, 1]
    assert best_cut(rows[1]["cuts"], 1) == "mlp 0"
    assert on_half("0110", 0) == [0, 1]
    assert len(says(rows)) == 3


def test_the_smoke_preset_finds_that_the_facts_hang_on_attention() -> None:
    cell = LmTruncation(layer=1, facts_asked=12, matrices=("mlp", "attention", "W_down"), ranks=(4,))
    found = cell.run()
    assert list(found["cuts"]) == ["mlp 0", "attention 0", "W_down 4"]
    assert found["whole_price"]["The capital of X is"] == 1.0
    assert set(found["prices"]) <= set(found["cuts"])
    assert all(len(hits) == len(found["capitals"]) for cut in found["cuts"].values() for hits in cut.values())


def test_layers_are_those_of_the_model_or_those_named() -> None:
    made = figure("lm-truncation")
    assert [cell.layer for cell in made.cells(made.grid("quick"))] == list(range(30))  # type: ignore[attr-defined]
    grid = made.grid("smoke", {"layers": [1]})
    assert [cell.layer for cell in made.cells(grid)] == [1]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="unknown matrices 'W_X'"):
        LmTruncation(layer=0, facts_asked=2, matrices=("W_X",), ranks=(1,))
    with pytest.raises(ValueError, match="layer=3: the model has 3"):
        LmTruncation(layer=3, facts_asked=2, matrices=("mlp",), ranks=(1,)).run()
