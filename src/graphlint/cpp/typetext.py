"""Types as they are written in C++, taken apart as far as it tells what holds what."""

from __future__ import annotations

from graphlint.cpp.vocabulary import load

_QUALIFIERS = frozenset(
    {
        "static",
        "const",
        "constexpr",
        "thread_local",
        "inline",
        "mutable",
        "volatile",
        "extern",
        "typename",
        "struct",
        "class",
    }
)


def plain_type(text: str) -> str:
    """The name of a type alone, without qualifiers and template arguments; of a smart pointer that of what it holds."""
    name, arguments = split_type(text)
    if name.rpartition("::")[2] in load().words.transparent and arguments:
        return plain_type(arguments[0])
    return name


def element_type(text: str) -> str:
    """The type of what a container holds (of a map: its values), of what a pointer or optional points to."""
    name, arguments = split_type(text)
    if not arguments:
        return text.rstrip("&* ")
    if "map" in name.rpartition("::")[2].lower() and len(arguments) > 1:
        return arguments[1]
    return arguments[0]


def is_holder(text: str) -> bool:
    """Whether a type is a smart pointer or an optional."""
    return split_type(text)[0].rpartition("::")[2] in load().words.transparent


def split_type(text: str) -> tuple[str, tuple[str, ...]]:
    """The name of a type and its template arguments."""
    head, bracket, rest = text.partition("<")
    words = [word for word in head.replace("&", " ").replace("*", " ").split() if word not in _QUALIFIERS]
    name = words[0] if words else ""
    if not bracket:
        return name, ()
    arguments: list[str] = []
    depth = 0
    start = 0
    for index, char in enumerate(rest):
        if char in "<(":
            depth += 1
        elif char in ">)":
            if depth == 0:
                arguments.append(rest[start:index].strip())
                break
            depth -= 1
        elif char == "," and depth == 0:
            arguments.append(rest[start:index].strip())
            start = index + 1
    return name, tuple(arguments)
