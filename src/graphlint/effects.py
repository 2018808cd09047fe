"""What code can do to graphs and to the memory they point at: the closed list of effects, and the places they are about."""

from __future__ import annotations

from enum import Enum


class Effect(str, Enum):
    """An effect of a call, a binding, a with-block or an exit.

    The list is closed: vocabularies, rules and the validation suite use these names and no others.
    """

    CAPTURE = "capture"
    """A capture begins; it ends in a normal or an exceptional exit of its block."""
    CAPTURE_END = "capture_end"
    REPLAY = "replay"
    GRAPH_DEATH = "graph_death"
    """Captured graphs are reset or destroyed; their pool loses a user."""
    POOL_MINT = "pool_mint"
    """A new pool handle is made."""
    POOL_STORE = "pool_store"
    """A pool handle is kept in a place that outlives the function."""
    POOL_RETIRE = "pool_retire"
    """A kept pool handle is given up."""
    ERASE = "erase"
    """`empty_cache` in any spelling, and the entry of a capture context, which calls it."""
    WS_ALLOC = "ws_alloc"
    """Device memory is allocated and kept in a place that outlives the function."""
    WS_GET = "ws_get"
    """A named buffer is asked of a registry."""
    WS_REPLACE = "ws_replace"
    """A kept buffer gives way to another."""
    WS_RELEASE = "ws_release"
    """Kept device memory is given up."""
    KV_RELEASE = "kv_release"
    """A KV cache or another resource manager gives its memory back."""
    COMM_DESTROY = "comm_destroy"
    IS_CAPTURING = "is_capturing"
    """A test whether the current stream is being captured."""
    SYNC = "sync"
    STATIC_WRITE = "static_write"
    """A tensor that a graph reads is written in place."""
    STATIC_REBIND = "static_rebind"
    """A tensor that a graph reads gives way to another."""
    OUTPUT_ESCAPE = "output_escape"
    """A tensor that a graph writes leaves without a copy."""


class Lifetime(int, Enum):
    """How long a place holds what is put there, shortest first."""

    LOCAL = 0
    INSTANCE = 1
    CLASS = 2
    MODULE = 3
    PROCESS = 4
