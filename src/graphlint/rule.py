"""What a rule declares in its `rule.toml`: its words, how bad and how sure it is, and an ordering rule's automaton.

A rule is a folder whose name is the rule's name wherever one is needed: on the command line, in a suppression, in a
report. Its `rule.toml` holds this:

    summary = "a pool is erased while workspaces allocated in it are held"   # one line, for lists of rules
    message = "{pool} is erased here, but {workspace} still holds memory of it"
    group = "teardown"                  # lifetime | teardown | input | capture; `--select` takes it
    severity = "error"                  # how bad: error | warning | note
    precision = "high"                  # how sure: high | medium | low
    kind = "ordering"                   # ordering: an automaton over effects; shape: a function in the Python file
    reported-at = "erase"               # ordering: the effect whose step of the path is reported, or "last" for the
                                        # step that reaches the hazard, whichever its effect; shape: a phrase
    fix = "safe"                        # the best that its rewrite can be: safe | unsafe | suggest | none
    cpp = "kept-under-capture"          # optional, shape: the hazard in C++ that it reports (graphlint.cpp.shapes); an
                                        # ordering rule reads C++ with its automaton
    test = "order"                      # optional: what a test of its rewrite asserts (`Claim`), for `fix --with-test`
    trades-for = ["other-rule"]         # optional: rules whose findings may stand where this one's was, after its fix
    former-names = ["old-name"]         # optional: names that still select and suppress it
    since = "0.1"                       # the version that brought it

and for an ordering rule the automaton (`subject`, `start`, `[states.*]`; see `graphlint.automaton`).

`message` is what a finding says. It starts in lower case, stands in the present tense and ends without a period; its
`{placeholders}` are filled from the values of the suspect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from string import Formatter

from graphlint import automaton
from graphlint.automaton import HAZARD, Automaton
from graphlint.declarations import Document, ListOf, OneOf, Table
from graphlint.edits import Applicability
from graphlint.effects import Effect
from graphlint.findings import Precision, Severity


class Group(str, Enum):
    """What a rule's hazards have in common."""

    LIFETIME = "lifetime"
    """Memory that a graph holds moves, is reused or dies."""
    TEARDOWN = "teardown"
    """Graphs, workspaces, pools and managers go down in the wrong order, twice, or not at all."""
    INPUT = "input"
    """A replay reads what is not there any more, or not yet."""
    CAPTURE = "capture"
    """A capture does what it cannot do, or keeps what it should not."""


class Kind(str, Enum):
    """How a rule's suspects are found."""

    ORDERING = "ordering"
    """By its automaton, along the paths of the program."""
    SHAPE = "shape"
    """By a function of its own over the facts of the project."""


class Claim(str, Enum):
    """What holds after a rule's rewrite and did not before, so that a test can assert it."""

    ORDER = "order"
    """Graphs die, then workspaces are released, then the pool is erased."""
    ONCE = "once"
    """Nothing is released twice."""
    RETIRED = "retired"
    """The handle of a pool does not outlive the graphs of the pool."""
    KEPT = "kept"
    """What a capture was given survives growth, and a capture does not grow it."""


@dataclass(frozen=True)
class Rule:
    """One rule, as declared."""

    name: str
    summary: str
    message: str
    group: Group
    severity: Severity
    precision: Precision
    kind: Kind
    reported_at: str
    """Of an ordering rule the effect whose step of the path is reported, else a phrase."""
    fix: Applicability | None
    """The best that the rule's rewrite can be; None where it has none."""
    since: str
    cpp: str | None = None
    """Of a shape rule the name of the same hazard in C++."""
    trades_for: tuple[str, ...] = ()
    """Names of the rules whose findings may stand where this one's was after its fix."""
    former_names: tuple[str, ...] = ()
    automaton: Automaton | None = None
    """Of an ordering rule, and of no other."""
    test: Claim | None = None
    """What a test of the rule's rewrite asserts; None where none can be written."""

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Names that the message wants from a suspect's values, in its order."""
        return _placeholders(self.message)


NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
"""Names of rules have a hyphen: so none is the name of a group, and each can be found as a word of its own."""

LAST = "last"
"""Value of `reported-at`: the step that reaches the hazard."""

_NO_FIX = "none"

_SCHEMA = Table(
    required={
        "summary": str,
        "message": str,
        "group": OneOf(tuple(Group)),
        "severity": OneOf(tuple(Severity)),
        "precision": OneOf(tuple(Precision)),
        "kind": OneOf(tuple(Kind)),
        "reported-at": str,
        "fix": OneOf((*Applicability, _NO_FIX)),
        "since": str,
    },
    optional={
        "cpp": str,
        "test": OneOf(tuple(Claim)),
        "trades-for": ListOf(str),
        "former-names": ListOf(str),
        **automaton.SCHEMA,
    },
)
_EFFECTS = frozenset(effect.value for effect in Effect)
_SINCE = re.compile(r"\d+\.\d+(\.\d+)?")


def load(name: str, document: Document) -> Rule:
    """The rule that a folder's `rule.toml` declares.

    Raises:
        DeclarationError: a key is unknown, missing or of another type, or its value breaks a rule of the module's
            docstring.
    """
    document.check(_SCHEMA)
    _check_sentence(document, "summary")
    _check_sentence(document, "message")
    _check_placeholders(document)
    if not NAME.fullmatch(name):
        raise document.error(f"the folder's name {name!r} must be lower-case words joined by hyphens, two or more")
    if not _SINCE.fullmatch(document["since"]):
        raise document.error("'since' must be a version such as '0.1'", "since")
    for index, former in enumerate(document.get("former-names", ())):
        if not NAME.fullmatch(former):
            raise document.error(f"{former!r} cannot have been a rule's name", "former-names", index)
    kind = Kind(document["kind"])
    return Rule(
        name=name,
        summary=document["summary"],
        message=document["message"],
        group=Group(document["group"]),
        severity=Severity(document["severity"]),
        precision=Precision(document["precision"]),
        kind=kind,
        reported_at=document["reported-at"],
        fix=None if document["fix"] == _NO_FIX else Applicability(document["fix"]),
        since=document["since"],
        cpp=document.get("cpp"),
        trades_for=tuple(document.get("trades-for", ())),
        former_names=tuple(document.get("former-names", ())),
        automaton=_automaton(document, kind),
        test=Claim(document["test"]) if "test" in document else None,
    )


def _automaton(document: Document, kind: Kind) -> Automaton | None:
    for key in automaton.SCHEMA:
        if kind is Kind.ORDERING and key not in document:
            raise document.error(f"key {key!r} is missing: an ordering rule has an automaton", "kind")
        if kind is not Kind.ORDERING and key in document:
            raise document.error(f"a {kind.value} rule has no automaton, so no {key!r}", key)
    if kind is not Kind.ORDERING:
        return None
    loaded = automaton.load(document)
    reported = document["reported-at"]
    if reported == LAST:
        return loaded
    if reported not in _EFFECTS:
        message = f"'reported-at' of an ordering rule must be an effect or {LAST!r}, not {reported!r}"
        raise document.error(message, "reported-at")
    if HAZARD in loaded.reaches(loaded.start, without=reported):
        message = f"a path leads to {HAZARD} without {reported!r}, where nothing could be reported"
        raise document.error(message, "reported-at")
    return loaded


def _check_sentence(document: Document, key: str) -> None:
    """Hold `summary` and `message` to one style, so that reports read as one voice."""
    text = document[key]
    for is_wrong, must in (
        (not text or text != " ".join(text.split()), "be one line without spare blanks"),
        (text[:1].isupper(), "start in lower case"),
        (text.endswith((".", "!")), "end without a period"),
        (re.search(r"\bplease\b", text, re.IGNORECASE), "say what is, without 'please'"),
        (re.search(r"\bwill\b", text, re.IGNORECASE), "stand in the present tense, without 'will'"),
    ):
        if is_wrong:
            raise document.error(f"{key!r} must {must}", key)


def _check_placeholders(document: Document) -> None:
    text = document["message"]
    try:
        _placeholders(text)
    except ValueError as error:
        raise document.error(f"'message' has a wrong placeholder: {error}", "message") from error


def _placeholders(message: str) -> tuple[str, ...]:
    names: list[str] = []
    for _, name, spec, conversion in Formatter().parse(message):
        if name is None:
            continue
        if not name.isidentifier() or spec or conversion:
            raise ValueError(f"{{{name}}} must be a plain name")
        names.append(name)
    return tuple(names)
