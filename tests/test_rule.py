from __future__ import annotations

import pytest

from graphlint import rule
from graphlint.declarations import DeclarationError, parse
from graphlint.edits import Applicability
from graphlint.findings import Precision, Severity
from graphlint.rule import Group, Kind, Rule

SHAPE = """\
summary = "a thing is kept too long"
message = "{thing} outlives {owner}, which holds it"
group = "lifetime"
severity = "error"
precision = "high"
kind = "shape"
reported-at = "the binding"
fix = "unsafe"
trades-for = ["other-thing"]
former-names = ["old-thing", "older-thing"]
since = "0.1"
"""

ORDERING = """\
summary = "a pool is erased too early"
message = "{pool} is erased here, but {workspace} still holds memory of it"
group = "teardown"
severity = "warning"
precision = "medium"
kind = "ordering"
reported-at = "erase"
fix = "none"
since = "0.2.1"

subject = "pool"
start = "live"

[states.live]
erase = "erased"

[states.erased]
exit = "HAZARD"
"""


def load(text: str, name: str = "kept-thing") -> Rule:
    return rule.load(name, parse(text.encode(), "rule.toml"))


def test_a_shape_rule() -> None:
    assert load(SHAPE) == Rule(
        name="kept-thing",
        summary="a thing is kept too long",
        message="{thing} outlives {owner}, which holds it",
        group=Group.LIFETIME,
        severity=Severity.ERROR,
        precision=Precision.HIGH,
        kind=Kind.SHAPE,
        reported_at="the binding",
        fix=Applicability.UNSAFE,
        since="0.1",
        trades_for=("other-thing",),
        former_names=("old-thing", "older-thing"),
    )
    assert load(SHAPE).placeholders == ("thing", "owner")


def test_an_ordering_rule() -> None:
    loaded = load(ORDERING)
    assert loaded.kind is Kind.ORDERING
    assert loaded.fix is None
    assert loaded.trades_for == ()
    assert loaded.automaton is not None
    assert loaded.automaton.step("live", "erase") == "erased"
    assert hash(loaded) == hash(load(ORDERING))


@pytest.mark.parametrize(
    "key", ["summary", "message", "group", "severity", "precision", "kind", "reported-at", "fix", "since"]
)
@pytest.mark.parametrize("text", [SHAPE, ORDERING])
def test_what_every_rule_must_say(text: str, key: str) -> None:
    lines = [line for line in text.splitlines() if not line.startswith(f"{key} ")]
    with pytest.raises(DeclarationError, match=f"^rule.toml:1: key '{key}' is missing$"):
        load("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "old", "new", "row", "message"),
    [
        (SHAPE, "summary", "sumary", 1, "unknown key 'sumary'; did you mean 'summary'?"),
        (SHAPE, "since", "level = 1\nsince", 11, "unknown key 'level'"),
        (SHAPE, '"lifetime"', '"life"', 3, "'group' must be one of lifetime, teardown, input, capture, not 'life'"),
        (SHAPE, '"error"', '"fatal"', 4, "'severity' must be one of error, warning, note, not 'fatal'"),
        (SHAPE, '"high"', "3", 5, "'precision' must be text, not a whole number"),
        (SHAPE, '"shape"', '"form"', 6, "'kind' must be one of ordering, shape, not 'form'"),
        (SHAPE, '"unsafe"', '"maybe"', 8, "'fix' must be one of safe, unsafe, suggest, none, not 'maybe'"),
        (SHAPE, '["other-thing"]', '"other-thing"', 9, "'trades-for' must be an array, not text"),
        (SHAPE, '"older-thing"', "\n7", 11, "'former-names.1' must be text, not a whole number"),
        (SHAPE, '"older-thing"', '"Older"', 10, "'Older' cannot have been a rule's name"),
        (SHAPE, '"0.1"', '"soon"', 11, "'since' must be a version such as '0.1'"),
        (SHAPE, '"a thing', '"A thing', 1, "'summary' must start in lower case"),
        (SHAPE, "too long", "too long.", 1, "'summary' must end without a period"),
        (SHAPE, '"{thing} outlives', '"Then {thing} outlives', 2, "'message' must start in lower case"),
        (SHAPE, "holds it", "holds it.", 2, "'message' must end without a period"),
        (SHAPE, "holds it", "holds it\\nlong", 2, "'message' must be one line without spare blanks"),
        (SHAPE, "{owner}, which holds it", "", 2, "'message' must be one line without spare blanks"),
        (SHAPE, "outlives", "will outlive", 2, "'message' must stand in the present tense, without 'will'"),
        (SHAPE, "which holds it", "please drop it", 2, "'message' must say what is, without 'please'"),
        (SHAPE, "{owner}", "{}", 2, "'message' has a wrong placeholder: {} must be a plain name"),
        (SHAPE, "{owner}", "{owner.name}", 2, "'message' has a wrong placeholder: {owner.name} must be a plain name"),
        (SHAPE, "{owner}", "{owner!r}", 2, "'message' has a wrong placeholder: {owner} must be a plain name"),
        (SHAPE, "{owner}", "{owner", 2, "'message' has a wrong placeholder: "),
        (SHAPE, "since", 'start = "a"\nsince', 11, "a shape rule has no automaton, so no 'start'"),
        (SHAPE, '"0.1"', '"0.1"\n[states.a]', 12, "a shape rule has no automaton, so no 'states'"),
        (SHAPE, '"shape"', '"ordering"', 6, "key 'subject' is missing: an ordering rule has an automaton"),
        (ORDERING, 'subject = "pool"\n', "", 6, "key 'subject' is missing: an ordering rule has an automaton"),
        (ORDERING, '"erase"', '"exit"', 7, "'reported-at' of an ordering rule must be an effect or 'last', not 'exit'"),
        (ORDERING, '"erase"', '"sync"', 7, "a path leads to HAZARD without 'sync', where nothing could be reported"),
        (ORDERING, "exit", "exits", 18, "unknown effect 'exits'; did you mean 'exit'?"),
    ],
)
def test_a_wrong_rule_is_an_error_with_its_row(text: str, old: str, new: str, row: int, message: str) -> None:
    assert old in text
    with pytest.raises(DeclarationError) as caught:
        load(text.replace(old, new, 1))
    assert caught.value.message.startswith(message)
    assert caught.value.row == row


def test_the_last_step_is_on_every_path() -> None:
    two_ways = ORDERING.replace('erase = "erased"', 'erase = "erased"\nsync = "erased"')
    assert load(two_ways.replace('reported-at = "erase"', 'reported-at = "last"')).reported_at == rule.LAST


def test_a_hazard_that_some_path_reaches_without_the_reported_effect() -> None:
    other_way = ORDERING.replace('erase = "erased"', 'erase = "erased"\nsync = "erased"')
    with pytest.raises(DeclarationError, match=r"^rule\.toml:7: a path leads to HAZARD without 'erase'"):
        load(other_way)


@pytest.mark.parametrize(
    "name", ["lifetime", "Kept-thing", "kept_thing", "kept-", "-kept", "kept--thing", "kept thing"]
)
def test_a_name_is_two_or_more_words_with_hyphens(name: str) -> None:
    with pytest.raises(DeclarationError, match="must be lower-case words joined by hyphens, two or more"):
        load(SHAPE, name)
