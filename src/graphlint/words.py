"""Names that say little by themselves."""

from __future__ import annotations

COMMON_METHODS = frozenset(
    name for kind in (dict, list, set, str, bytes, tuple, int, frozenset) for name in dir(kind) if name[0] != "_"
) | frozenset(
    # methods of tensors, modules, threads, files, loggers: a lone definition in a project does not own such a name
    ("acquire", "add_argument", "apply", "backward", "cancel", "close", "connect", "contiguous", "cpu", "cuda",
     "data_ptr", "debug", "detach", "empty_cache", "error", "eval", "exception", "fill_", "flush", "forward",
     "get_event_loop", "info", "is_alive", "item", "join", "load", "numel", "open", "parse_args", "put", "read",
     "record", "recv", "release", "replay", "reset", "resize_", "result", "run", "save", "send", "set", "size",
     "start", "step", "stop", "submit", "sum", "synchronize", "to", "train", "view", "wait", "warning", "write",
     "zero_", "zeros"),
)  # fmt: skip
"""Method names that too many types share to tell a receiver."""
