"""A search for many names at once finds what one search for each finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphlint.mentions import grouped, mentions

NAMES = (
    b"CUDAGraph",
    b"XPUGraph",
    b"cuda.graph(",
    b"graph_pool",
    b"mem_pool",
    b"mempool",
    b"drop_all",
    b"aaaaab",
    b"baaaa",
)


def test_names_that_share_a_piece_are_a_group() -> None:
    groups = grouped(NAMES)
    assert {front + piece + back for piece, group in groups.items() for front, back in group.sides} == set(NAMES)
    assert groups[b"raph"].sides == ((b"CUDAG", b""), (b"XPUG", b""), (b"cuda.g", b"("), (b"g", b"_pool"))
    assert groups[b"drop_all"].sides == ((b"", b""),)


def test_a_name_is_found_wherever_it_stands() -> None:
    for name in NAMES:
        for around in (b"", b" ", b"graph ", b"Graph", b"\n"):
            assert mentions(around + name + around, grouped(NAMES))
            assert not mentions(around + name[1:], grouped((name,)))
            assert not mentions(name[:-1] + around, grouped((name,)))


@given(
    names=st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=8),
    texts=st.lists(st.text("abc", max_size=20), max_size=5),
)
def test_it_finds_what_one_search_for_each_finds(names: list[str], texts: list[str]) -> None:
    wanted = tuple(name.encode() for name in names)
    for text in texts:
        assert mentions(text.encode(), grouped(wanted)) == any(name in text for name in names)
