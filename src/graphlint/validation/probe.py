"""What a fixture's `observe(probe)` is handed: it shows the probe what happens, and the suite judges.

The probe raises nothing of its own and returns plain values, so that a fixture reads like a program, not like a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from graphlint.validation.watch import Watch

T = TypeVar("T")

CANARY = 113
"""Value of a canary's elements: exact in every type of 8 bits and more."""
COPIES = 8
"""Tensors that one canary is made of, so that one of them is given the block that was freed last."""


class Probe:
    """Looks at values, memory and graphs of one process."""

    def __init__(self, torch: Any, watch: Watch, emit: Callable[[Mapping[str, object]], None]) -> None:
        self._torch = torch
        self._watch = watch
        self._emit = emit
        self._canaries: list[tuple[Any, ...]] = []

    def check(self, name: str, got: object, expected: object) -> None:
        """Compare, bit for bit where the two are tensors."""
        same = self._same(got, expected)
        at = 0 if same else self._first_difference(got, expected)
        shown = {"got": _shown(got, at), "expected": _shown(expected, at)}
        self._emit({"event": "check", "name": name, "ok": same, **shown})
        self._watch.sample(f"check: {name}")

    def canary(self, like: Any) -> Any:
        """A tensor of a known value, as large as another: who writes to it writes to memory that is not theirs."""
        copies = tuple(self._torch.full_like(like, CANARY) for _ in range(COPIES))
        self._canaries.append(copies)
        return copies[0]

    def replay(self, graph: Any) -> None:
        """Replay a graph, wait for it, and look at the canaries."""
        graph.replay()
        self._torch.cuda.synchronize()
        self.look("replay")

    def reserved(self, pool: tuple[int, int]) -> int:
        """Bytes that a pool still keeps, where it has to have given all of them back."""
        return self.at_most(f"bytes of pool {pool}", self._watch.reserved(pool), 0)

    def at_most(self, name: str, got: int, limit: int) -> int:
        """Hold an amount of memory to a limit."""
        self._emit({"event": "limit", "name": name, "ok": got <= limit, "got": got, "limit": limit})
        self._watch.sample(f"limit: {name}")
        return got

    def eager(self, run: Callable[[], T]) -> T:
        """The result of a computation that is not replayed."""
        result = run()
        self._torch.cuda.synchronize()
        return result

    def refused(self, run: Callable[[], object]) -> bool:
        """Whether a call raises a `RuntimeError` of its own; one of CUDA or of torch's allocator goes on."""
        try:
            run()
        except RuntimeError as error:
            if is_device_error(error):
                raise
            self._emit({"event": "refused", "text": str(error)})
            return True
        return False

    def look(self, moment: str) -> None:
        """See whether the canaries are what they were."""
        for number, copies in enumerate(self._canaries):
            hurt = [copy for copy in copies if not bool((copy == CANARY).all())]
            if hurt:
                elements = sum(int((copy != CANARY).sum()) for copy in hurt)
                self._emit({"event": "canary", "number": number, "moment": moment, "elements": elements})
                for copy in hurt:
                    copy.fill_(CANARY)

    def _same(self, got: object, expected: object) -> bool:
        tensor = self._torch.Tensor
        if not isinstance(got, tensor) or not isinstance(expected, tensor):
            return bool(got == expected)
        return bool(got.device == expected.device and got.dtype == expected.dtype and self._torch.equal(got, expected))

    def _first_difference(self, got: Any, expected: Any) -> int:
        """Index of the first element in which two tensors differ; 0 where their elements cannot be compared."""
        tensor = self._torch.Tensor
        if not isinstance(got, tensor) or not isinstance(expected, tensor):
            return 0
        if (got.shape, got.dtype, got.device) != (expected.shape, expected.dtype, expected.device):
            return 0
        one, other = got.flatten(), expected.flatten()
        low, high = 0, one.numel()
        while high - low > 1:
            middle = (low + high) // 2
            if self._torch.equal(one[low:middle], other[low:middle]):
                low = middle
            else:
                high = middle
        return low


def is_device_error(error: BaseException) -> bool:
    """Whether CUDA or torch's allocator gave up, rather than a program that checks itself."""
    text = str(error)
    return type(error).__name__ == "AcceleratorError" or "CUDA error" in text or "INTERNAL ASSERT" in text


def _shown(value: Any, at: int) -> str:
    shape = getattr(value, "shape", None)
    if shape is None:
        return repr(value)[:200]
    elements = value.flatten()[at : at + 4].tolist() if value.numel() else []
    return f"tensor of {tuple(shape)}{f' from element {at}' if at else ''}: {elements}"
