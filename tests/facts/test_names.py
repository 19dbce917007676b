"""Which spellings are one name: case, accents that are no part of a letter, and other shapes of the same letter."""

import pytest

from facthold.facts.names import Names, UnknownName, fold

ONE = [
    ("Côte  d'Ivoire", "cote d'ivoire"), ("São Tomé", "SAO TOME"), ("Việt Nam", "viet nam"), ("Straße", "STRASSE"),
    ("Αθήνα", "αθηνα"), ("Королёв", "королев"), ("İstanbul", "istanbul"), ("ＡＢＣ", "abc"), ("ﬁn", "fin"),
    ("ｶﾞ", "ガ"), ("a\u00a0b", "A b"), ("e\u0301", "é"), ("x\u0302", "X"),
]  # fmt: skip
TWO = [
    ("が", "か"),
    ("Й", "И"),
    ("ї", "і"),
    ("ў", "у"),
    ("2²", "22"),
    ("H₂O", "H2O"),
    ("①", "1"),
    ("क़", "क"),
    ("ب", "ت"),
]


@pytest.mark.parametrize(("one", "other"), ONE)
def test_spellings_of_one_name(one: str, other: str) -> None:
    assert fold(one) == fold(other)
    assert Names("subject", [one, "else"]).find(other) == 0


@pytest.mark.parametrize(("one", "other"), TWO)
def test_names_that_only_look_alike_are_two(one: str, other: str) -> None:
    assert fold(one) != fold(other)
    with pytest.raises(UnknownName, match="unknown subject"):
        Names("subject", [one, "else"]).find(other)


def test_case_alone_may_decide_between_names_that_accents_tell_apart() -> None:
    names = Names("subject", ["Zoë", "Zoe", "else"])
    assert (names.get("zoë"), names.get("zoe"), names.get("ZOË")) == (0, 1, 0)
    with pytest.raises(UnknownName, match="is not clear: 'Zoë', 'Zoe'"):
        names.get("zoé")


def test_a_folded_name_stays_as_it_is() -> None:
    for name in (name for pair in (*ONE, *TWO) for name in pair):
        assert fold(fold(name)) == fold(name)


def test_a_name_that_shares_few_letters_is_not_suggested() -> None:
    names = Names("subject", ["Zealand", "Thailand", "France"])
    assert names.near("Atlantis") == []
    assert names.near("Frnace") == ["France"]
