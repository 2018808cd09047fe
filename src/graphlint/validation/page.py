"""The suite's result as one HTML page that needs nothing else.

For each case: verdicts, what was shown, the difference between the two versions, and for each variant a run with its
stale pointers and the bytes that each pool held from one moment to the next.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from graphlint.validation.cases import BAD, FIXED, Case, Files, Setting
from graphlint.validation.outcome import CaseOutcome, Outcome, brief
from graphlint.validation.runner import Done
from graphlint.validation.verdict import Verdict

_STYLE = """
:root { color-scheme: light dark; --fine: #23803f; --bad: #c4372c; --line: #8884; --quiet: #777 }
@media (prefers-color-scheme: dark) { :root { --fine: #5fc983; --bad: #ff7f73; --quiet: #999 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; padding: 0 1.2rem }
h1 { font-size: 1.5rem; margin: 0 }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .2rem; padding-top: .6rem; border-top: 2px solid var(--line) }
h3 { font-size: .95rem; margin: 1rem 0 .2rem }
p { margin: .3rem 0 .6rem; max-width: 60rem }
pre, code { font: 13px/1.45 ui-monospace, monospace }
pre { white-space: pre-wrap; margin: .3rem 0; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 }
td, th { text-align: left; padding: .22rem .8rem .22rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
th { font-weight: 600; font-size: .87rem; color: var(--quiet) }
td.narrow, th.narrow { white-space: nowrap }
.confirmed, .plus { color: var(--fine) }
.refuted, .faulty, .not, .minus { color: var(--bad) }
.skipped, .quiet, small { color: var(--quiet) }
.tag { border: 1px solid; border-radius: .7rem; padding: 0 .5rem; font: 500 .8rem system-ui; white-space: nowrap }
a { color: inherit }
summary { cursor: pointer; padding: .15rem 0 }
.run > summary { display: grid; grid-template-columns: 1.2rem minmax(9rem, 17rem) 6rem 6rem 4rem 1fr; gap: .6rem }
.run > summary::before { content: "▸" }
.run[open] > summary::before { content: "▾" }
.inside { border-left: 3px solid var(--line); margin: .2rem 0 1rem .3rem; padding: .1rem 0 .1rem 1.2rem }
svg { display: block; max-width: 100%; margin: .4rem 0 }
svg text { font: 11px system-ui, sans-serif; fill: currentColor }
"""
_COLOURS = ("#4878a8", "#d0803c", "#5a9e54", "#b5534f", "#8b6fb0", "#8a6b52", "#c884b2", "#7f7f7f")

_WIDTH, _TOP, _BOTTOM, _LEFT, _LABELS = 1000, 12, 150, 66, 96
"""Of a timeline, in its own units: size, upper and lower end and place of the axis, height of the labels."""
_STEP, _LEGEND, _LABEL = 120, 130, 22
"""Widest bar, width of an entry of the legend; characters of a label."""

_MOST_FAILURES, _MOST_POINTERS, _MOST_STDERR = 12, 20, 6000

_INTRODUCTION = """
<p>Each case is a program with a hazard (<b>bad</b>) and the same program rewritten (<b>fixed</b>). A run of bad is
confirmed where it shows the symptom that the case declares for that setting of torch's allocator, and no other; a run
of fixed where it shows nothing, and every pointer of its graphs lay in live memory before each replay. Some cases have
rewrites made wrong on purpose; a run of these is confirmed where it is rejected.</p>
"""


def render(outcome: Outcome) -> str:
    """The page."""
    return "".join(_page(outcome))


def _page(outcome: Outcome) -> Iterator[str]:
    device = {key: escape(str(value)) for key, value in outcome.device.items()}
    ran = [case for case in outcome.cases if not case.skipped]
    yield "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    yield f"<title>graphlint validate</title><style>{_STYLE}</style>"
    yield f"<h1>graphlint validate: {sum(case.confirmed for case in ran)} of {len(ran)} cases confirmed</h1>"
    machine = "{devices} &times; {name}, driver {driver}, torch {torch}, CUDA {cuda}, Python {python}"
    yield f"<p class=quiet>{machine.format_map(device)}; {outcome.when:%Y-%m-%d %H:%M} UTC, {outcome.seconds:.0f} s</p>"
    yield _INTRODUCTION
    yield "<table><tr><th>case<th>verdict<th>bad shows, default allocator<th>expandable segments"
    yield "<th class=narrow>bad<th class=narrow>fixed<th class=narrow>wrong<th>rewrite</tr>"
    for case in outcome.cases:
        counts = (case.count(BAD), case.count(FIXED), case.count(*(wrong.name for wrong in case.case.wrong)))
        shown = [_first(case, setting) for setting in Setting]
        yield f"<tr><td class=narrow><a href='#{_anchor(case)}'>{escape(case.case.title)}</a><td>{_tag(case.verdict)}"
        yield f"<td>{escape(shown[0])}<td>{escape('the same' if len({*shown}) == 1 and shown[0] else shown[1])}"
        yield "".join(f"<td class=narrow>{right} of {total}" if total else "<td>" for right, total in counts)
        yield f"<td>{escape(case.compared.note)}</tr>"
    yield "</table>"
    for case in outcome.cases:
        yield from _case(case)
    yield "</html>\n"


def _first(case: CaseOutcome, setting: Setting) -> str:
    """What bad showed first under a setting."""
    runs = [done for done in case.done if (done.run.variant, done.run.setting) == (BAD, setting)]
    if not runs:
        return ""
    return brief(runs[0].judged.failures[0].text) if runs[0].judged.failures else "nothing"


def _case(case: CaseOutcome) -> Iterator[str]:
    yield f"<h2 id='{_anchor(case)}'>{escape(case.case.title)} {_tag(case.verdict)}</h2>"
    yield f"<p>{escape(case.case.summary)}<br><small>sources {case.case.digest()[:16]}</small></p>"
    if case.skipped:
        yield f"<p class=skipped>skipped: {escape(case.skipped)}</p>"
    groups: dict[tuple[str, str], list[Done]] = {}
    for done in case.done:
        groups.setdefault((done.run.variant, done.run.setting.value), []).append(done)
    for (variant, setting), runs in groups.items():
        shown = next((done for done in runs if done.judged.verdict is not Verdict.CONFIRMED), runs[0])
        right = sum(done.judged.verdict is Verdict.CONFIRMED for done in runs)
        yield f"<details class=run{' open' if right < len(runs) else ''}>"
        yield f"<summary><b>{escape(variant)}</b><span>{setting}</span>"
        yield f"<span>{_tag(shown.judged.verdict.value)}</span><span>{right} of {len(runs)}</span>"
        yield f"<span>{escape(brief(shown.judged.reason))}</span></summary><div class=inside>"
        yield from _run(shown)
        yield "</div></details>"
    fixed = case.compared.files or case.case.files(FIXED)
    yield f"<details class=run><summary><b>the rewrite</b><span>{escape(case.compared.note)}</span></summary>"
    yield f"<div class=inside><pre>{''.join(_difference(case.case, fixed))}</pre></div></details>"


def _difference(case: Case, fixed: Files) -> Iterator[str]:
    """What turns bad into fixed, a line a line."""
    bad = case.files(BAD)
    names = zip(sorted(bad), sorted(fixed), strict=True) if not case.entry else ((name, name) for name in sorted(fixed))
    for one, other in names:
        before, after = (text.decode().splitlines() for text in (bad.get(one, b""), fixed[other]))
        for line in difflib.unified_diff(before, after, one, other, lineterm="", n=3):
            kind = {"+": "plus", "-": "minus"}.get(line[:1], "quiet" if line[:1] == "@" else "")
            yield f"<span class='{kind}'>{escape(line)}</span>\n"


def _run(done: Done) -> Iterator[str]:
    judged, ended = done.judged, done.ended
    yield f"<p class=quiet>run {done.run.number}: exit status {ended.status}, {ended.seconds:.1f} s, "
    yield f"{judged.audits} audits of {judged.pointers} blocks in all</p>"
    told = list(Counter(failure.text for failure in judged.failures if not failure.freed_at).items())
    if told:
        items = (
            f"<li><code>{escape(text)}</code>{f', {times} times' if times > 1 else ''}"
            for text, times in told[:_MOST_FAILURES]
        )
        more = f"<li class=quiet>and {len(told) - _MOST_FAILURES} more" if len(told) > _MOST_FAILURES else ""
        yield f"<ul>{''.join(items)}{more}</ul>"
    stale = Counter(_stale_rows(ended.events))
    if stale:
        yield "<h3>Stale pointers</h3>"
        yield "<table><tr><th>before a<th>address<th>bytes<th>pool<th>now<th>freed by<th>times</tr>"
        for row, times in list(stale.items())[:_MOST_POINTERS]:
            yield f"<tr>{''.join(f'<td><code>{escape(cell)}</code>' for cell in (*row, str(times)))}</tr>"
        yield "</table>"
    samples = [event for event in ended.events if event["event"] == "sample"]
    if samples:
        yield f"<h3>Bytes by pool, from one moment to the next</h3>{''.join(_timeline(samples))}"
    if judged.verdict is not Verdict.CONFIRMED and ended.stderr.strip():
        yield f"<details><summary>standard error</summary><pre>{escape(ended.stderr[-_MOST_STDERR:])}</pre></details>"


def _stale_rows(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for event in events:
        for each in event["stale"] if event["event"] == "audit" else ():
            by = " ← ".join(f"{function} ({file}:{line})" for file, line, function in each["freed"]) or "unknown"
            yield event["moment"], each["address"], str(each["size"]), str(tuple(each["pool"])), each["state"], by


def _timeline(samples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Bytes of each pool, stacked; a bar a moment."""
    pools = sorted({pool for sample in samples for pool in sample["pools"]}, key=lambda pool: (pool != "0.0", pool))
    colours = {pool: _COLOURS[number % len(_COLOURS)] for number, pool in enumerate(pools)}
    most = max(sum(sample["pools"].values()) for sample in samples) or 1
    step = min((_WIDTH - _LEFT) / len(samples), _STEP)
    high = _BOTTOM + _LABELS + 22
    yield f"<svg viewBox='0 0 {_WIDTH} {high}' width='{_WIDTH}' role=img aria-label='bytes by pool'>"
    for part in (0, 0.5, 1):
        y = _BOTTOM - part * (_BOTTOM - _TOP)
        yield f"<line x1='{_LEFT}' x2='{_WIDTH}' y1='{y}' y2='{y}' stroke='currentColor' opacity='.18'/>"
        yield f"<text x='{_LEFT - 6}' y='{y + 4}' text-anchor='end'>{_bytes(part * most)}</text>"
    for index, sample in enumerate(samples):
        left, top = _LEFT + index * step, float(_BOTTOM)
        for pool in pools:
            size = sample["pools"].get(pool, 0)
            tall = size / most * (_BOTTOM - _TOP)
            top -= tall
            if tall:
                yield f"<rect x='{left + 1:.1f}' y='{top:.1f}' width='{max(step - 3, 1):.1f}' height='{tall:.1f}' "
                yield f"fill='{colours[pool]}'>"
                yield f"<title>{escape(sample['moment'])}: {_named(pool)}, {_bytes(size)}</title></rect>"
        turned = f"translate({left + step / 2 + 4:.1f} {_BOTTOM + 12}) rotate(-38)"
        yield f"<text transform='{turned}' text-anchor='end'>{_label(sample['moment'])}</text>"
    for number, (pool, colour) in enumerate(colours.items()):
        x = _LEFT + number * _LEGEND
        yield f"<rect x='{x}' y='{high - 14}' width='10' height='10' fill='{colour}'/>"
        yield f"<text x='{x + 14}' y='{high - 5}'>{_named(pool)}</text>"
    yield "</svg>"


def _label(moment: str) -> str:
    text = moment.removeprefix("check: ").removeprefix("limit: ")
    return escape(text if len(text) <= _LABEL else text[: _LABEL - 1] + "…")


def _named(pool: str) -> str:
    return "eager" if pool == "0.0" else f"pool ({pool.replace('.', ', ')})"


def _bytes(count: float) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _tag(verdict: str) -> str:
    return f"<span class='tag {verdict.partition(' ')[0]}'>{verdict}</span>"


def _anchor(case: CaseOutcome) -> str:
    return case.case.title.replace("/", "-")
