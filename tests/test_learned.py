"""What a path has learned: questions, answers and what follows from them, whatever the order in which they came."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphlint.learned import NOTHING_LEARNED, Atom, Fact, Learned

GRAPHS = ("$self", "graphs")
POOL = ("$self", "pool")

PLACES = st.sampled_from([(), GRAPHS, POOL, ("$other",), ("mod:a", "x"), ("@12#3", "y")])
ATOMS = st.tuples(st.sampled_from(["capturing", "returned", "compare x"]), PLACES)
"""Questions whose answers say nothing of each other."""


@given(st.dictionaries(ATOMS, st.booleans(), max_size=8))
def test_facts_are_found_again_and_compare_by_what_they_say(facts: dict[Atom, bool]) -> None:
    built = NOTHING_LEARNED
    for atom, answer in facts.items():
        built = built.with_answer(atom, answer)
    at_once = Learned.of(reversed(list(facts.items())))
    assert built == at_once
    assert hash(built) == hash(at_once)
    assert set(built) == set(facts.items())
    for atom, answer in facts.items():
        assert built.get(atom) is answer
        assert built.with_answer(atom, not answer).get(atom) is not answer
        assert built.without(atom).get(atom) is None
        assert built.without(atom).with_answer(atom, answer) == built


def test_what_is_none_is_not_true() -> None:
    learned = NOTHING_LEARNED.with_answer(("none", GRAPHS), True)
    assert learned.get(("true", GRAPHS)) is False
    assert learned.with_answer(("true", GRAPHS), True).get(("none", GRAPHS)) is False
    assert learned.get(("true", POOL)) is None


def test_what_equals_one_thing_equals_no_other() -> None:
    learned = NOTHING_LEARNED.with_answer(("='a'", POOL), True).with_answer(("='a'", GRAPHS), True)
    learned = learned.with_answer(("='b'", POOL), True)
    assert learned.get(("='a'", POOL)) is False
    assert learned.get(("='a'", GRAPHS)) is True
    assert learned.get(("=size", POOL)) is None  # a name may well stand for the same


def test_an_answer_that_is_known_makes_no_new_facts() -> None:
    learned = NOTHING_LEARNED.with_answer(("true", GRAPHS), True)
    assert learned.with_answer(("true", GRAPHS), True) is learned
    assert learned.without(("true", POOL)) is learned
    assert learned.under(lambda root: root == "$self") is learned


def test_facts_are_forgotten_by_root() -> None:
    facts: list[Fact] = [(("none", GRAPHS), False), (("true", ("@12#3",)), True), (("capturing", ()), True)]
    learned = Learned.of(facts)
    assert set(learned.under(lambda root: not root.startswith("@"))) == {facts[0], facts[2]}
    assert learned.about("$self") == {facts[0]}
    assert set(learned.put("$self", frozenset())) == {facts[1], facts[2]}
