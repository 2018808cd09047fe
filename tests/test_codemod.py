"""Trees by span, and rewrites that keep what they are not about."""

from __future__ import annotations

import ast
import contextlib
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, ParentNodeProvider

from graphlint import edits
from graphlint.codemod import (
    Module,
    Modules,
    NotParsedError,
    Rewrite,
    Tree,
    Unit,
    Uses,
    clash,
    is_pure,
    reference,
    uses,
)
from graphlint.source import Source, Span

# ---------------------------------------------------------------------------------------------------------- the helpers


def span_of(source: Source, text: str, nth: int = 0) -> Span:
    """The span of the nth place where a text stands."""
    codec = "utf-8" if source.encoding == "utf-8-sig" else source.encoding
    wanted = text.encode(codec)
    start = -1
    for _ in range(nth + 1):
        start = source.content.index(wanted, start + 1)
    return Span(start, start + len(wanted))


class Editor:
    """One rewrite of one function, its statements named by the text that they begin with or hold."""

    def __init__(self, content: bytes, first_line: str) -> None:
        self.source = Source("m.py", content)
        start = span_of(self.source, first_line).start
        self.tree: Tree = Module(self.source).tree(Span(start, len(content.rstrip())))
        self.rewrite = Rewrite(self.tree)

    def at(self, text: str, nth: int = 0) -> Unit:
        unit = self.tree.statement(span_of(self.source, text, nth))
        assert unit is not None
        return unit

    def node(self, text: str, kind: type[Any], nth: int = 0) -> Any:
        node = self.tree.node_at(span_of(self.source, text, nth), kind)
        assert node is not None
        return node

    def result(self) -> bytes:
        return edits.apply(self.rewrite.edits(), self.source.content)


@dataclass(frozen=True)
class Case:
    """A rewrite and what it makes of a function."""

    name: str
    change: Callable[[Editor], object]
    before: str
    after: str


def case(name: str, change: Callable[[Editor], object], before: str, after: str) -> Case:
    return Case(name, change, textwrap.dedent(before).lstrip("\n"), textwrap.dedent(after).lstrip("\n"))


def several(*changes: Callable[[Editor], object]) -> Callable[[Editor], object]:
    def change(editor: Editor) -> None:
        for each in changes:
            each(editor)

    return change


def delete(*texts: str) -> Callable[[Editor], object]:
    def change(editor: Editor) -> None:
        for text in texts:
            editor.rewrite.delete(editor.at(text))

    return change


def replace(text: str, nth: int, new: str) -> Callable[[Editor], object]:
    return lambda editor: editor.rewrite.replace(editor.node(text, cst.Attribute, nth), new)


def move(moved: str, target: str) -> Callable[[Editor], object]:
    return lambda editor: editor.rewrite.move_before([editor.at(moved)], editor.at(target))


CASES = [
    # ------------------------------------------------------------------------------------------------------- deletions
    case(
        "delete-one-of-several",
        delete("b()"),
        """
        def f():
            a()
            b()
            c()
        """,
        """
        def f():
            a()
            c()
        """,
    ),
    case(
        "delete-keeps-comments-and-paragraphs",
        delete("b("),
        """
        def f():
            a()

            # above
            b(  # inside
                1
            )  # behind
            # before the next
            c()
        """,
        """
        def f():
            a()

            # above
            # inside
            # behind
            # before the next
            c()
        """,
    ),
    case(
        "delete-drops-what-the-line-told-a-tool",
        delete("b()"),
        """
        def f():
            b()  # noqa: F821
            c()  # noqa: F821
        """,
        """
        def f():
            c()  # noqa: F821
        """,
    ),
    case(
        "delete-the-last-one-keeps-the-comment-at-the-end",
        delete("b()"),
        """
        def f():
            a()
            # above
            b()
            # end


        x = 1
        """,
        """
        def f():
            a()
            # above
            # end


        x = 1
        """,
    ),
    case(
        "delete-the-only-one",
        delete("b()"),
        """
        def f():
            # above
            b()
        """,
        """
        def f():
            # above
            pass
        """,
    ),
    case(
        "delete-leaves-a-docstring",
        delete("b()"),
        '''
        def f():
            """Doc."""
            b()
        ''',
        '''
        def f():
            """Doc."""
        ''',
    ),
    case(
        "an-emptied-if-goes-with-its-comments-left",
        delete("b()"),
        """
        def f(x):
            a()

            # once
            if x is not None:  # only then
                # more
                b()
            c()
        """,
        """
        def f(x):
            a()

            # once
            # only then
            # more
            c()
        """,
    ),
    case(
        "an-emptied-if-whose-test-does-something-stays",
        delete("b()"),
        """
        def f(x):
            if x.acquire():
                b()
            c()
        """,
        """
        def f(x):
            if x.acquire():
                pass
            c()
        """,
    ),
    case(
        "an-else-takes-the-place-of-its-emptied-if",
        delete("b()"),
        """
        def f(x):
            if x is None:
                # never mind
                b()
            else:
                # instead
                c()
        """,
        """
        def f(x):
            if x is not None:
                # never mind
                # instead
                c()
        """,
    ),
    case(
        "an-emptied-else-goes",
        delete("c()"),
        """
        def f(x):
            if x:
                b()
            else:
                # why
                c()
            d()
        """,
        """
        def f(x):
            if x:
                b()
            # why
            d()
        """,
    ),
    case(
        "an-emptied-elif-at-the-end-goes",
        delete("c()"),
        """
        def f(x, y):
            if x:
                b()
            elif y:
                c()
        """,
        """
        def f(x, y):
            if x:
                b()
        """,
    ),
    case(
        "an-emptied-elif-that-keeps-others-out-stays",
        delete("c()"),
        """
        def f(x, y):
            if x:
                b()
            elif y:
                c()
            else:
                d()
        """,
        """
        def f(x, y):
            if x:
                b()
            elif y:
                pass
            else:
                d()
        """,
    ),
    case(
        "an-emptied-loop-goes-with-its-guard",
        delete("each.close()"),
        """
        def f(items):
            a()
            for each in items.values():
                if each is None:
                    continue  # nothing to close
                each.close()
            b()
        """,
        """
        def f(items):
            a()
            # nothing to close
            b()
        """,
    ),
    case(
        "an-emptied-loop-whose-variable-is-read-later-stays",
        delete("each.close()"),
        """
        def f(items):
            for each in items:
                each.close()
            return each
        """,
        """
        def f(items):
            for each in items:
                pass
            return each
        """,
    ),
    case(
        "an-emptied-loop-over-an-iterator-that-does-something-stays",
        delete("each.close()"),
        """
        def f(items):
            for each in items.drain():
                each.close()
        """,
        """
        def f(items):
            for each in items.drain():
                pass
        """,
    ),
    case(
        "a-guard-and-one-statement-become-an-if",
        delete("each.release()"),
        """
        def f(items):
            for each in items:
                # some are not there
                if each is None:
                    continue
                each.release()
                # stale
                each.state = None
        """,
        """
        def f(items):
            for each in items:
                # some are not there
                if each is not None:
                    # stale
                    each.state = None
        """,
    ),
    case(
        "a-guard-before-more-stays-a-guard",
        delete("each.release()"),
        """
        def f(items):
            for each in items:
                if each is None:
                    continue
                each.release()
                each.state = None
                each.step()
        """,
        """
        def f(items):
            for each in items:
                if each is None:
                    continue
                each.state = None
                each.step()
        """,
    ),
    case(
        "gates-of-a-deleted-statement-and-of-a-none-go",
        delete("each.release()"),
        """
        def f(items, options):
            with scope():
                # all of them
                for each in [items.one, items.other]:
                    if each is None:
                        continue
                    # they point at the old ones
                    if each.state is not None:
                        if options.graphs is not None:
                            # once more
                            each.release()
                        each.state = None
            done()
        """,
        """
        def f(items, options):
            with scope():
                # all of them
                for each in [items.one, items.other]:
                    if each is not None:
                        # they point at the old ones
                        # once more
                        each.state = None
            done()
        """,
    ),
    case(
        "a-gate-of-another-place-stays",
        delete("x.release()"),
        """
        def f(x, y):
            if y.state is not None:
                x.release()
                x.state = None
        """,
        """
        def f(x, y):
            if y.state is not None:
                x.state = None
        """,
    ),
    case(
        "an-emptied-with-of-a-lock-goes",
        delete("x.release()"),
        """
        def f(self, x):
            with self._lock:
                x.release()
            a()
        """,
        """
        def f(self, x):
            a()
        """,
    ),
    case(
        "an-emptied-with-that-does-something-stays",
        delete("x.release()"),
        """
        def f(x):
            with session() as s:
                x.release()
            a(s)
        """,
        """
        def f(x):
            with session() as s:
                pass
            a(s)
        """,
    ),
    case(
        "an-emptied-try-leaves-its-else-and-finally",
        delete("x.release()"),
        """
        def f(x):
            # careful
            try:
                x.release()
            except OSError:  # gone
                log()
            else:
                a()
            finally:
                # always
                b()
        """,
        """
        def f(x):
            # careful
            # gone
            a()
            # always
            b()
        """,
    ),
    case(
        "an-emptied-handler-passes",
        delete("x.release()"),
        """
        def f(x):
            try:
                a()
            except OSError:
                # gone
                x.release()
        """,
        """
        def f(x):
            try:
                a()
            except OSError:
                # gone
                pass
        """,
    ),
    case(
        "an-emptied-finally-goes",
        delete("x.release()"),
        """
        def f(x):
            a()
            try:
                # first
                b()
            finally:
                # always
                x.release()
            c()
        """,
        """
        def f(x):
            a()
            # always
            # first
            b()
            c()
        """,
    ),
    case(
        "an-emptied-finally-behind-handlers-goes",
        delete("x.release()"),
        """
        def f(x):
            try:
                b()
            except OSError:
                log()
            finally:
                # always
                x.release()
            c()
        """,
        """
        def f(x):
            try:
                b()
            except OSError:
                log()
            # always
            c()
        """,
    ),
    case(
        "an-emptied-case-passes",
        delete("x.release()"),
        """
        def f(x):
            match x.kind:
                case 1:
                    # one
                    x.release()
                case _:
                    a()
        """,
        """
        def f(x):
            match x.kind:
                case 1:
                    # one
                    pass
                case _:
                    a()
        """,
    ),
    case(
        "delete-in-async-code",
        delete("await x.release()"),
        """
        @app.command
        async def f(x):
            async with x.lock:
                await x.release()
            await a()
        """,
        """
        @app.command
        async def f(x):
            await a()
        """,
    ),
    case(
        "delete-in-a-nested-function",
        delete("x.release()"),
        """
        def f(x):
            def g():
                x.release()

            return g
        """,
        """
        def f(x):
            def g():
                pass

            return g
        """,
    ),
    case(
        "delete-between-semicolons",
        delete("b()"),
        """
        def f():
            # all three
            a(); b(); c()  # end
            d(); e()
        """,
        """
        def f():
            # all three
            a()
            c()  # end
            d(); e()
        """,
    ),
    case(
        "delete-behind-a-colon",
        delete("b()"),
        """
        def f(x):
            if x: a(); b()  # end
            if x: c()
        """,
        """
        def f(x):
            if x:
                a()
                # end
            if x: c()
        """,
    ),
    case(
        "delete-all-behind-a-colon",
        delete("b()"),
        """
        def f(x):
            if x: b()
            else: c()
        """,
        """
        def f(x):
            if not x:
                c()
        """,
    ),
    case(
        "delete-a-statement-over-continued-lines",
        delete("b("),
        """
        def f(x):
            a()
            x = 1 + \\
                b(2)
            c()
        """,
        """
        def f(x):
            a()
            c()
        """,
    ),
    case(
        "delete-two",
        delete("from m import r", "r.close()"),
        """
        def f(x):
            if x:
                from m import r

                r.close()
            c()
        """,
        """
        def f(x):
            c()
        """,
    ),
    # ----------------------------------------------------------------------------------------------------------- moves
    case(
        "move-up",
        move("c()", "b()"),
        """
        def f():
            a()
            b()
            c()
            d()
        """,
        """
        def f():
            a()
            c()
            b()
            d()
        """,
    ),
    case(
        "move-takes-comments-along",
        move("c(", "b()"),
        """
        def f():
            a()

            # about b
            b()  # behind b

            # about c
            c(
                # inside c
                1,
            )  # behind c
            d()
        """,
        """
        def f():
            a()

            # about c
            c(
                # inside c
                1,
            )  # behind c
            # about b
            b()  # behind b

            d()
        """,
    ),
    case(
        "move-to-the-beginning",
        move("c()", "a()"),
        """
        def f():
            # about a
            a()
            c()
        """,
        """
        def f():
            c()
            # about a
            a()
        """,
    ),
    case(
        "move-a-compound-statement",
        move("if x is not None", "b()"),
        """
        def f(x):
            b()
            if x is not None:
                # about x
                x.close()
                # end
            d()
        """,
        """
        def f(x):
            if x is not None:
                # about x
                x.close()
                # end
            b()
            d()
        """,
    ),
    case(
        "move-between-semicolons",
        move("c()", "b()"),
        """
        def f():
            a(); b(); c()  # end
        """,
        """
        def f():
            a()
            c()  # end
            b()
        """,
    ),
    case(
        "move-into-a-block",
        move("c()", "b()"),
        """
        def f(x):
            with x.lock:
                a()
                b()
            # about c
            c()
        """,
        """
        def f(x):
            with x.lock:
                a()
                # about c
                c()
                b()
        """,
    ),
    # ------------------------------------------------------------------------------------------------------ insertions
    case(
        "insert-before",
        lambda editor: editor.rewrite.insert_before(editor.at("b()"), "# why\nfrom m import r\n\nr.close()\n"),
        """
        def f():
            a()

            # about b
            b()
        """,
        """
        def f():
            a()

            # why
            from m import r

            r.close()
            # about b
            b()
        """,
    ),
    case(
        "insert-after",
        lambda editor: editor.rewrite.insert_after(editor.at("b()"), "if x:\n    # why\n    y(\n        x,\n    )\n"),
        """
        def f(x):
            a()
            b()  # behind

            c()
        """,
        """
        def f(x):
            a()
            b()  # behind
            if x:
                # why
                y(
                    x,
                )

            c()
        """,
    ),
    case(
        "insert-behind-a-colon",
        lambda editor: editor.rewrite.insert_before(editor.at("b()"), "c()\n"),
        """
        def f(x):
            if x: b()  # end
        """,
        """
        def f(x):
            if x:
                c()
                b()  # end
        """,
    ),
    case(
        "insert-and-delete-together",
        several(lambda editor: editor.rewrite.insert_before(editor.at("b()"), "x()\n"), delete("c()")),
        """
        def f():
            if a:
                b()
            if a:
                c()
        """,
        """
        def f():
            if a:
                x()
                b()
        """,
    ),
    case(
        "wrap-several",
        lambda editor: editor.rewrite.wrap(editor.at("a("), editor.at("return"), "with scope(x):"),
        """
        def f(x):
            '''Doc.'''

            # about a
            a(
                1,
            )

            # about b
            if x:
                b('''
        text''')
            return x  # end
        """,
        """
        def f(x):
            '''Doc.'''

            # about a
            with scope(x):
                a(
                    1,
                )

                # about b
                if x:
                    b('''
        text''')
                return x  # end
        """,
    ),
    case(
        "wrap-and-change-inside",
        several(
            lambda editor: editor.rewrite.wrap(editor.at("a(x)"), editor.at("a(x)"), "if x is not None:"),
            lambda editor: editor.rewrite.replace(editor.node("x", cst.Name, 1), "x.y"),
        ),
        """
        def f(x):
            a(x)
            b(x)
        """,
        """
        def f(x):
            if x is not None:
                a(x.y)
            b(x)
        """,
    ),
    # ------------------------------------------------------------------------------------------------- names and values
    case(
        "replace-with-parentheses-where-needed",
        several(*(replace("x.pool", nth, "get() or None") for nth in range(4))),
        """
        def f(x):
            a(x.pool)
            return x.pool + 1, (x.pool), x.pool.id
        """,
        """
        def f(x):
            a(get() or None)
            return (get() or None) + 1, (get() or None), (get() or None).id
        """,
    ),
    case(
        "rename-a-method-its-calls-and-its-gates",
        several(
            lambda editor: editor.rewrite.rename(editor.node("x.drop", cst.Attribute).attr, "drop_all"),
            lambda editor: editor.rewrite.rename_string(editor.node("'drop'", cst.SimpleString), "drop_all"),
            lambda editor: editor.rewrite.rename_string(editor.node('"drop"', cst.SimpleString), "drop_all"),
        ),
        """
        def f(x):
            if hasattr(x, 'drop'):  # drop
                x.drop()
            getattr(x, "drop", None)
        """,
        """
        def f(x):
            if hasattr(x, 'drop_all'):  # drop
                x.drop_all()
            getattr(x, "drop_all", None)
        """,
    ),
    case(
        "add-a-method-at-the-end",
        lambda editor: editor.rewrite.add_method(
            editor.tree.enclosing(span_of(editor.source, "class A"), cst.ClassDef),  # type: ignore[arg-type]
            '@classmethod\ndef g(cls) -> None:\n    """Do it.\n\n    Well.\n    """\n    cls.x = 1\n',
        ),
        """
        class A:
            x = None

            def f(self):
                pass


        y = 1
        """,
        '''
        class A:
            x = None

            def f(self):
                pass

            @classmethod
            def g(cls) -> None:
                """Do it.

                Well.
                """
                cls.x = 1


        y = 1
        ''',
    ),
]


def arguments(keyword: str | None) -> Callable[[Editor], object]:
    def change(editor: Editor) -> None:
        call = editor.tree.enclosing(span_of(editor.source, "call"), cst.Name)
        assert call is not None
        editor.rewrite.add_argument(editor.tree.parents[call], "v", keyword)  # type: ignore[arg-type]

    return change


for index, (before, positional, named) in enumerate(
    [
        ("call()", "call(v)", "call(k=v)"),
        ("call(a)", "call(a, v)", "call(a, k=v)"),
        ("call(a, b=1)", "call(a, v, b=1)", "call(a, b=1, k=v)"),
        ("call(a, *c, **d)", "call(a, *c, v, **d)", "call(a, *c, k=v, **d)"),
        ("call(x for x in y)", "call((x for x in y), v)", "call((x for x in y), k=v)"),
        ("call(|a,|b,)", "call(|a,|b,|v,)", "call(|a,|b,|k=v,)"),
        ("call(|a,  # about a)", "call(|a,  # about a|v,)", "call(|a,  # about a|k=v,)"),
        ("call(|a,|**d,)", "call(|a,|v,|**d,)", "call(|a,|k=v,|**d,)"),
    ]
):
    head = "def f(a, b, c, d, y, v):\n    return "
    if "|" in before:  # one argument a line
        before, positional, named = (
            text.replace("|", "\n        ")[:-1] + "\n    )" for text in (before, positional, named)
        )
    CASES.append(Case(f"add-an-argument-{index}", arguments(None), f"{head}{before}\n", f"{head}{positional}\n"))
    CASES.append(Case(f"add-a-keyword-{index}", arguments("k"), f"{head}{before}\n", f"{head}{named}\n"))


def parameter(editor: Editor) -> None:
    function = editor.tree.enclosing(span_of(editor.source, "pass"), cst.FunctionDef)
    assert function is not None
    editor.rewrite.add_parameter(function, "v")


for index, (before, after) in enumerate(
    [
        ("", "v"),
        ("a", "a, v"),
        ("a, b=1", "a, b=1, *, v"),
        ("a, *c", "a, *c, v"),
        ("a, *, b", "a, *, b, v"),
        ("a, **d", "a, *, v, **d"),
        ("\n    a,\n    b,\n", "\n    a,\n    b,\n    v,\n"),
        ("\n    a,\n    b=1,  # about b\n", "\n    a,\n    b=1,  # about b\n    *,\n    v,\n"),
    ]
):
    CASES.append(
        Case(f"add-a-parameter-{index}", parameter, f"def f({before}):\n    pass\n", f"def f({after}):\n    pass\n")
    )


def as_is(text: str) -> bytes:
    return text.encode()


def with_crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


def with_tabs(text: str) -> bytes:
    return re.sub(r"^(?: {4})+", lambda match: "\t" * (len(match[0]) // 4), text, flags=re.MULTILINE).encode()


def with_mark(text: str) -> bytes:
    return f"\ufeff# é\n{text}".encode()


def in_latin_1(text: str) -> bytes:
    return f"# coding: latin-1\n# é\nname = 'é'\n\n\n{text}".encode("latin-1")


VARIANTS = [as_is, with_crlf, with_tabs, with_mark, in_latin_1]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_a_rewrite(each: Case, variant: Callable[[str], bytes]) -> None:
    editor = Editor(variant(each.before), each.before.split("\n")[0])
    each.change(editor)
    assert editor.result().decode("latin-1") == variant(each.after).decode("latin-1")


@pytest.mark.parametrize(
    "each", [each for each in CASES if "'''" not in each.before + each.after], ids=lambda each: each.name
)
def test_a_rewrite_in_a_nested_class(each: Case) -> None:
    """The function's text is parsed where it stands, however deep."""
    outer = "class Outer:\n    class Inner:\n        _ = 1\n\n"
    before, after = (outer + textwrap.indent(text, " " * 8) for text in (each.before, each.after))
    editor = Editor(before.encode(), each.before.split("\n")[0])
    each.change(editor)
    assert editor.result().decode() == after


@pytest.mark.parametrize("name", ["delete-one-of-several", "move-up", "insert-after"])
def test_a_rewrite_beside_form_feeds(name: str) -> None:
    """Python counts indentation anew behind a form feed, LibCST does not."""
    each = next(each for each in CASES if each.name == name)
    before, after = (
        f"\x0c{text.replace('    a()', chr(12) + '    a()')}\n\x0c\n" for text in (each.before, each.after)
    )
    editor = Editor(before.encode(), each.before.split("\n")[0])
    each.change(editor)
    assert editor.result().decode() == after


def test_what_the_formatter_likes_it_still_likes(tmp_path: Path) -> None:
    for each in CASES:
        (tmp_path / f"{each.name}.before.py").write_text(each.before)
        (tmp_path / f"{each.name}.after.py").write_text(each.after)
    disliked = format_check(tmp_path)
    assert {name for name in disliked if name.replace(".after", ".before") not in disliked} == set()
    assert len(disliked) < len(CASES)


def format_check(folder: Path) -> set[str]:
    """The files that `ruff format` would change."""
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--check", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return set(re.findall(r"[\w.-]+\.py", done.stdout))


def test_only_changed_lines_are_edited() -> None:
    source = Source("m.py", b"def f():\n    a( 1 )\n    if b:\n        c()\n    d( 2 )\n")
    tree = Module(source).tree(Span(0, len(source.content)))
    rewrite = Rewrite(tree)
    unit = tree.statement(span_of(source, "c()"))
    assert unit is not None
    rewrite.delete(unit)
    (only,) = rewrite.edits()
    assert (source.text(only.span), only.content) == ("    if b:\n        c()\n", b"")


# ------------------------------------------------------------------------------------------------- generated programs


class Program:
    """A random function of traced calls, branches, loops and guards, with comments everywhere."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.calls = 0
        self.comments = 0
        self.text = "def f(t, a, b, c):\n" + "\n".join(self._block(1, depth=0)) + "\n"

    def _comment(self) -> str:
        self.comments += 1
        return f"# comment {self.comments}"

    def _block(self, level: int, depth: int, *, loop: bool = False) -> list[str]:
        pad = "    " * level
        lines: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            if lines and self.random.random() < 0.2:
                lines.append("")
            if self.random.random() < 0.3:
                lines.append(pad + self._comment())
            lines += self._statement(level, depth, loop=loop)
        return lines

    def _statement(self, level: int, depth: int, *, loop: bool) -> list[str]:
        pad = "    " * level
        test = self.random.choice(["a", "not b", "c is not None", "a is None", "a == b and c", "b in (1, 2)"])
        kind = self.random.choice(["call", "call", "if", "else", "elif", "for", "with", "try", "finally", "guard"])
        tail = "  " + self._comment() if self.random.random() < 0.2 else ""

        def body() -> list[str]:
            return self._block(level + 1, depth + 1, loop=loop)

        if kind == "call" or depth == 3:
            self.calls += 1
            return [f"{pad}t({self.calls}){tail}"]
        if kind == "if":
            return [f"{pad}if {test}:{tail}", *body()]
        if kind == "else":
            return [f"{pad}if {test}:{tail}", *body(), f"{pad}else:", *body()]
        if kind == "elif":
            return [f"{pad}if {test}:", *body(), f"{pad}elif c:{tail}", *body(), f"{pad}else:", *body()]
        if kind == "for":
            return [f"{pad}for i in range(2):{tail}", *self._block(level + 1, depth + 1, loop=True)]
        if kind == "with":
            return [f"{pad}with t.lock:{tail}", *body()]
        if kind == "try":
            return [f"{pad}try:", *body(), f"{pad}except KeyError:{tail}", *body()]
        if kind == "finally":
            return [f"{pad}try:", *body(), f"{pad}finally:{tail}", *body()]
        if loop:
            return [f"{pad}if {test}:", f"{pad}    continue{tail}"]
        return [f"{pad}if {test}:", f"{pad}    return{tail}"]


class Trace:
    """What the traced calls were, in their order; some of them raise."""

    def __init__(self, raising: int) -> None:
        self.seen: list[int] = []
        self.raising = raising
        self.lock = contextlib.nullcontext()

    def __call__(self, number: int) -> None:
        self.seen.append(number)
        if number == self.raising:
            raise KeyError(number)


def run(text: str, raising: int, a: object, b: object, c: object) -> list[int]:
    names: dict[str, Any] = {}
    exec(compile(text, "program", "exec"), names)
    trace = Trace(raising)
    with contextlib.suppress(KeyError):
        names["f"](trace, a, b, c)
    return trace.seen


INPUTS = [(1, 1, None), (0, 1, 2), (None, None, 3), (1, 2, 0)]


def programs() -> Iterator[tuple[int, Program]]:
    for seed in range(120):
        program = Program(seed)
        if program.calls > 1:
            yield seed, program


def test_a_deletion_deletes_one_call_and_nothing_else(tmp_path: Path) -> None:
    """Whatever the function does besides, it still does, in the same order; no comment is lost."""
    for seed, program in programs():
        source = Source("m.py", program.text.encode())
        gone = seed % program.calls + 1
        tree = Module(source).tree(Span(0, len(source.content)))
        unit = tree.statement(span_of(source, f"t({gone})"))
        assert unit is not None
        rewrite = Rewrite(tree)
        rewrite.delete(unit)
        after = edits.apply(rewrite.edits(), source.content).decode()
        for values in INPUTS:
            for raising in (0, *(number for number in (1, 3) if number != gone)):
                kept = [number for number in run(program.text, raising, *values) if number != gone]
                assert run(after, raising, *values) == kept, f"{program.text}\nt({gone})\n{after}"
        assert comments_in(program.text) == comments_in(after), f"{program.text}\nt({gone})\n{after}"
        (tmp_path / f"{seed}.before.py").write_text(program.text)
        (tmp_path / f"{seed}.after.py").write_text(after)
    disliked = format_check(tmp_path)
    liked = {f"{seed}.after.py" for seed, _ in programs() if f"{seed}.before.py" not in disliked}
    assert len(liked) > 50
    assert liked & disliked == set()


def comments_in(text: str) -> list[str]:
    return sorted(re.findall(r"# comment \d+", text))


def test_a_tree_finds_every_node_that_ast_finds() -> None:
    """Expressions and statements of both parsers have the same spans."""
    kinds: dict[type[ast.AST], type[Any]] = {ast.Call: cst.Call, ast.Expr: cst.Expr, ast.If: cst.If, ast.Name: cst.Name}
    for _, program in programs():
        source = Source("m.py", program.text.encode())
        tree = Module(source).tree(Span(0, len(source.content)))
        for node in ast.walk(ast.parse(program.text)):
            if type(node) in kinds and (isinstance(node, ast.expr | ast.stmt)):
                assert node.end_lineno is not None
                assert node.end_col_offset is not None
                start = source.line_starts[node.lineno - 1] + node.col_offset
                end = source.line_starts[node.end_lineno - 1] + node.end_col_offset
                assert tree.node_at(Span(start, end), kinds[type(node)]) is not None


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_tree_places_its_nodes_where_libcst_does(variant: Callable[[str], bytes]) -> None:
    for _, program in islice(programs(), 8):
        for text in (program.text, program.text.rstrip()):
            tree = Module(Source("m.py", variant(f"x = (1, 2)\n\n{text}"))).tree()
            wrapper = MetadataWrapper(tree.root, unsafe_skip_copy=True)
            assert tree.parents == wrapper.resolve(ParentNodeProvider)
            for node, at in wrapper.resolve(ByteSpanPositionProvider).items():
                if not isinstance(node, cst.Tuple | cst.GeneratorExp):  # which have their parentheses, as for `ast`
                    assert tree.spans[node] == tuple(map(tree.offsets.in_file, (at.start, at.start + at.length)))


@pytest.mark.parametrize("end", ["", "\n", "\n# end", "\n\n# end\n"])
def test_a_changed_module_is_written_as_libcst_writes_it(end: str) -> None:
    """What is copied from the text before is what LibCST would write."""
    source = Source("m.py", f'"""d"""\n\nimport a\n\n\ndef f():\n    g( )\n\n# c\nx  =  1; y = 2{end}'.encode())
    tree = Module(source).tree()
    for text in ("import a", "g( )", "x  =  1", "y = 2"):
        unit = tree.statement(span_of(source, text))
        assert unit is not None
        changed = tree.root.deep_remove(tree.path(unit)[-1][1])
        assert isinstance(changed, cst.Module)
        assert tree.code(changed) == changed.code != tree.text


# ------------------------------------------------------------------------------------------------------------- modules


def test_a_function_is_parsed_alone() -> None:
    text = "class A:\n    def f(self):\n        a()\n        # end\n\n    # g\n    def g(self):\n        b()\n"
    source = Source("m.py", text.encode())
    tree = Module(source).tree(span_of(source, "def f(self):\n        a()"))
    assert tree.text == "if 1:\n    def f(self):\n        a()\n        # end\n"


def test_a_symbol_is_read_off_the_indentation() -> None:
    text = (
        "class A:\n    def f(self):\n        def h():\n            pass\n\n"
        "    @d(\n        1\n    )\n    async def g(self): pass\n\n\ndef k(): pass\n"
    )
    source = Source("m.py", text.encode())
    module = Module(source)
    assert module.symbol(span_of(source, "def h():\n            pass")) == "A.f.h"
    assert module.symbol(span_of(source, "@d(\n        1\n    )\n    async def g(self): pass")) == "A.g"
    assert module.symbol(span_of(source, "def k(): pass")) == "k"
    assert module.symbol(Span(0, len(text))) == "A"
    assert Module(Source("m.py", b"a()\n")).symbol(Span(0, 4)) == ""


def test_what_libcst_cannot_read_is_an_error_with_its_path() -> None:
    with pytest.raises(NotParsedError, match=r"^m\.py: LibCST cannot read this file"):
        Module(Source("m.py", b"def f(:\n")).tree()
    with pytest.raises(NotParsedError, match="utf-8"):
        Module(Source("m.py", b"x = '\xff'\n")).tree()


def test_deep_nesting_is_no_trouble() -> None:
    text = "def f(a):\n    x = " + " + ".join(["a"] * 400) + "\n    b()\n"
    source = Source("m.py", text.encode())
    tree = Module(source).tree(Span(0, len(text)))
    rewrite = Rewrite(tree)
    unit = tree.statement(span_of(source, "b()"))
    assert unit is not None
    rewrite.delete(unit)
    assert edits.apply(rewrite.edits(), source.content).decode() == text.replace("    b()\n", "")


def test_what_is_nested_too_deeply_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphlint.codemod.tree._RECURSION", 0)
    text = "x = " + " + ".join(["a"] * 2000) + "\n"
    with pytest.raises(NotParsedError, match=r"m\.py: .* nested too deeply"):
        Module(Source("m.py", text.encode())).tree()


# --------------------------------------------------------------------------------------------------------------- names


PACKAGE = {
    "src/engine/__init__.py": b"",
    "demo/store.py": b"",
    "src/engine/ops/moe.py": b"class Runner:\n    pass\n\n\ndef clear():\n    pass\n",
}


DROP = "engine.ops.moe.Runner.drop"
CLEAR = "engine.ops.moe.clear"


@pytest.mark.parametrize(
    ("path", "content", "qualified", "statement", "expression"),
    [
        ("src/engine/run/a.py", "from ..x import y", DROP, "from ..ops.moe import Runner", "Runner.drop"),
        ("src/engine/a.py", "from .x import y", CLEAR, "from .ops.moe import clear", "clear"),
        ("src/engine/ops/__init__.py", "from . import y", CLEAR, "from .moe import clear", "clear"),
        ("src/engine/run/a.py", "import engine", DROP, "from engine.ops.moe import Runner", "Runner.drop"),
        ("src/engine/run/a.py", "from ..ops.moe import Runner", DROP, None, "Runner.drop"),
        ("src/engine/run/a.py", "from engine.ops.moe import Runner as R", DROP, None, "R.drop"),
        ("src/engine/run/a.py", "from ..ops import moe", DROP, None, "moe.Runner.drop"),
        (
            "src/engine/run/a.py",
            "if TYPE_CHECKING:\n    from ..ops.moe import Runner",
            DROP,
            "from engine.ops.moe import Runner",
            "Runner.drop",
        ),
        ("src/engine/ops/moe.py", "class Runner:\n    pass", DROP, None, "Runner.drop"),
        ("src/engine/run/a.py", "", "self.drop", None, "self.drop"),
        ("tool.py", "", DROP, "from engine.ops.moe import Runner", "Runner.drop"),
        ("demo/run.py", "from store import Other", "demo.store.Thing.drop", "from store import Thing", "Thing.drop"),
        ("demo/run.py", "import store", "demo.store.Thing.drop", None, "store.Thing.drop"),
        ("demo/run.py", "from store import Thing as T", "demo.store.Thing.drop", None, "T.drop"),
        ("run.py", "", f"{Path.cwd().name}.run.Thing.drop", None, "Thing.drop"),
        ("src/engine/ops/run.py", "from . import moe", DROP, None, "moe.Runner.drop"),
        ("src/engine/ops/run.py", "import engine.ops.moe", DROP, None, "engine.ops.moe.Runner.drop"),
        ("tool.py", "", "other.pkg.Thing.drop", "from other.pkg import Thing", "Thing.drop"),
        ("tool.py", "", "other.pkg.drop", "from other.pkg import drop", "drop"),
        ("tool.py", "import torch", "torch.cuda.empty_cache", None, "torch.cuda.empty_cache"),
        ("tool.py", "import torch.nn", "torch.cuda.empty_cache", None, "torch.cuda.empty_cache"),
        ("tool.py", "from torch import cuda as c", "torch.cuda.empty_cache", None, "c.empty_cache"),
    ],
)
def test_a_qualified_name_becomes_an_expression(
    path: str, content: str, qualified: str, statement: str | None, expression: str
) -> None:
    sources = {name: Source(name, text) for name, text in {**PACKAGE, path: f"{content}\n".encode()}.items()}
    found = reference(Modules(sources), path, qualified, Uses())
    assert found is not None
    assert (found.statement, found.expression) == (statement, expression)


def test_a_name_that_the_function_uses_is_not_taken_from_it() -> None:
    sources = {"a.py": Source("a.py", b"")}
    assert reference(Modules(sources), "a.py", "m.Runner.drop", uses(cst.parse_statement("f(Runner)"))) is None


def test_a_long_import_is_broken_where_the_formatter_breaks_it() -> None:
    sources = {"a.py": Source("a.py", b"")}
    found = reference(Modules(sources), "a.py", f"m.{'x' * 60}.Runner.drop", Uses(), column=8)
    assert found is not None
    assert found.statement == f"from m.{'x' * 60} import (\n    Runner,\n)"


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ("a.clear()", "b = 1", None),
        ("a.clear()", "a = 1", "a"),
        ("a.b.clear()", "del a.b", "a.b"),
        ("a.b.clear()", "a.c = 1", None),
        ("x = a.b", "x += 1", "x"),
        ("a.clear()", "for a in b:\n    pass", "a"),
        ("a.clear()", "import a.b", "a"),
        ("a.clear()", "from b import c as a", "a"),
        ("a.clear()", "with b as a:\n    pass", "a"),
        ("a[k] = 1", "a.clear()", "a"),
        ("f(a=1)", "a = 2", None),
        ("(a := 1)", "f(a)", "a"),
        ("f(x.a)", "x, a = 1, 2", "x"),
    ],
)
def test_statements_clash_where_one_binds_what_the_other_uses(one: str, other: str, place: str | None) -> None:
    assert clash(uses(cst.parse_statement(one)), uses(cst.parse_statement(other))) == place


@pytest.mark.parametrize("text", ["a.b is not None", "hasattr(a, 'b')", "a.is_ready()", "a['k'] and not b", "a.get(1)"])
def test_a_test_that_nobody_would_miss(text: str) -> None:
    assert is_pure(cst.parse_expression(text))


@pytest.mark.parametrize("text", ["a.acquire()", "(b := a)", "a.pop()", "f(a)", "not queue.drain()"])
def test_a_test_that_does_something(text: str) -> None:
    assert not is_pure(cst.parse_expression(text))


LONG = "x" * 30


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (f"    a = call({LONG}, y)\n", "v", f"    a = call({LONG}, y, v)\n"),
        (
            f"    return self.{LONG}.call({LONG}, y)\n",
            LONG,
            f"    return self.{LONG}.call(\n        {LONG}, y, {LONG}\n    )\n",
        ),
        (
            f"    await call({LONG}, {LONG})\n",
            LONG,
            f"    await call(\n        {LONG},\n        {LONG},\n        {LONG},\n    )\n",
        ),
    ],
)
def test_a_line_that_grows_too_long_is_broken_as_the_formatter_breaks_it(
    before: str, value: str, after: str, tmp_path: Path
) -> None:
    head = f"async def f(self, {LONG}, y, v):\n"
    editor = Editor(f"{head}{before}".encode(), "async def f")
    call = editor.tree.parents[editor.node("call", cst.Name)]
    call = call if isinstance(call, cst.Call) else editor.tree.parents[call]
    assert isinstance(call, cst.Call)
    editor.rewrite.add_argument(call, value)
    assert editor.result().decode() == f"{head}{after}"
    (tmp_path / "after.py").write_bytes(editor.result())
    assert format_check(tmp_path) == set()


def test_a_line_that_moves_to_the_right_is_broken_too() -> None:
    text = f"def f(x):\n    return call({LONG}, {LONG})\n"
    editor = Editor(text.encode(), "def f")
    editor.rewrite.wrap(editor.at("return"), editor.at("return"), "with scope(x):")
    body = f"        return call({LONG}, {LONG})\n"
    assert editor.result().decode() == f"def f(x):\n    with scope(x):\n{body}"
    editor = Editor(text.replace("call(", "a_lon_call(x, ").encode(), "def f")
    editor.rewrite.wrap(editor.at("return"), editor.at("return"), "with scope(x):")
    body = f"        return a_lon_call(\n            x, {LONG}, {LONG}\n        )\n"
    assert editor.result().decode() == f"def f(x):\n    with scope(x):\n{body}"
