"""The suite's result as one HTML page that needs nothing else: verdicts, errors, bytes by pool, stale pointers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from graphlint.validation.cases import BAD, FIXED
from graphlint.validation.outcome import CaseOutcome, Outcome
from graphlint.validation.runner import Done
from graphlint.validation.verdict import Verdict

_STYLE = """
:root { color-scheme: light dark; --fine: #2c8a4b; --bad: #c4372c; --line: #8884 }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem }
h1 { font-size: 1.5rem; margin: 0 }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem }
h3 { font-size: 1rem; margin: 1rem 0 .2rem }
pre, .mono { font: 13px/1.45 ui-monospace, monospace }
pre { white-space: pre-wrap; margin: .3rem 0 }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
.confirmed { color: var(--fine) }
.refuted, .faulty, .not { color: var(--bad) }
.skipped, small { color: gray }
.tag { border: 1px solid; border-radius: .7rem; padding: 0 .55rem; font-size: .85rem; white-space: nowrap }
summary { cursor: pointer }
details { margin: .2rem 0 }
svg { display: block; max-width: 100%; margin: .4rem 0 }
svg text { font: 11px sans-serif; fill: currentColor }
"""
_COLOURS = ("#4878a8", "#d0803c", "#5a9e54", "#b5534f", "#8b6fb0", "#8a6b52", "#c884b2", "#7f7f7f")

_WIDTH, _HEIGHT, _LEFT, _LEGEND = 900, 150, 62, 120
"""Of a timeline, in its own units: size, place of the axis, width of one entry of the legend."""

_MOST_FAILURES, _MOST_POINTERS, _MOST_STDERR = 12, 20, 6000


def render(outcome: Outcome) -> str:
    """The page."""
    return "".join(_page(outcome))


def _page(outcome: Outcome) -> Iterator[str]:
    device = {key: escape(str(value)) for key, value in outcome.device.items()}
    ran = [case for case in outcome.cases if not case.skipped]
    yield "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    yield f"<title>graphlint validate</title><style>{_STYLE}</style>"
    yield f"<h1>graphlint validate: {sum(case.confirmed for case in ran)} of {len(ran)} cases confirmed</h1>"
    yield "<p>{devices} &times; {name}, driver {driver}, torch {torch}, CUDA {cuda}, Python {python}; ".format_map(
        device
    )
    yield f"{outcome.when:%Y-%m-%d %H:%M} UTC, {outcome.seconds:.0f} s</p>"
    yield "<table><tr><th>case<th>verdict<th>bad shows it<th>fixed clean<th>wrong rewrites rejected<th>rewrite</tr>"
    for case in outcome.cases:
        counts = (case.count(BAD), case.count(FIXED), case.count(*(wrong.name for wrong in case.case.wrong)))
        yield f"<tr><td><a href='#{_anchor(case)}'>{escape(case.case.title)}</a><td>{_tag(case.verdict)}"
        yield "".join(f"<td>{right} of {total}" if total else "<td>" for right, total in counts)
        yield f"<td>{escape(case.compared.note)}</tr>"
    yield "</table>"
    for case in outcome.cases:
        yield from _case(case)
    yield "</html>\n"


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
        yield f"<details{' open' if right < len(runs) else ''}><summary><b>{escape(variant)}</b> · {setting} · "
        yield f"{_tag(shown.judged.verdict.value)} {right} of {len(runs)} · {escape(shown.judged.reason)}</summary>"
        yield from _run(shown)
        yield "</details>"


def _run(done: Done) -> Iterator[str]:
    judged, ended = done.judged, done.ended
    yield f"<p><small>run {done.run.number}: exit status {ended.status}, {ended.seconds:.1f} s, "
    yield f"{judged.audits} audits of {judged.pointers} blocks in all</small></p>"
    if judged.failures:
        items = (f"<li class=mono>{escape(failure.text)}" for failure in judged.failures[:_MOST_FAILURES])
        yield f"<ul>{''.join(items)}</ul>"
    stale = [(event["moment"], each) for event in ended.events if event["event"] == "audit" for each in event["stale"]]
    if stale:
        yield "<h3>Stale pointers</h3>"
        yield "<table><tr><th>before a<th>address<th>bytes<th>pool<th>now<th>freed by</tr>"
        for moment, each in stale[:_MOST_POINTERS]:
            by = " ← ".join(f"{function} ({file}:{line})" for file, line, function in each["freed"]) or "unknown"
            row = (moment, each["address"], each["size"], tuple(each["pool"]), each["state"], by)
            yield f"<tr>{''.join(f'<td class=mono>{escape(str(cell))}' for cell in row)}</tr>"
        yield "</table>"
    samples = [event for event in ended.events if event["event"] == "sample"]
    if samples:
        yield f"<h3>Reserved bytes by pool</h3>{''.join(_timeline(samples))}"
    if judged.verdict is not Verdict.CONFIRMED and ended.stderr.strip():
        yield f"<details><summary>standard error</summary><pre>{escape(ended.stderr[-_MOST_STDERR:])}</pre></details>"


def _timeline(samples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Bytes of each pool, stacked, from one moment to the next."""
    pools = sorted({pool for sample in samples for pool in sample["pools"]}, key=lambda pool: (pool != "0.0", pool))
    colours = {pool: _COLOURS[number % len(_COLOURS)] for number, pool in enumerate(pools)}
    most = max(sum(sample["pools"].values()) for sample in samples) or 1
    step = (_WIDTH - _LEFT) / len(samples)
    yield f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT + 22}' role=img aria-label='reserved bytes by pool'>"
    for index, sample in enumerate(samples):
        top = float(_HEIGHT)
        for pool in pools:
            size = sample["pools"].get(pool, 0)
            tall = size / most * (_HEIGHT - 24)
            top -= tall
            if tall:
                yield f"<rect x='{_LEFT + index * step:.1f}' y='{top:.1f}' width='{max(step - 0.6, 0.6):.1f}' "
                yield f"height='{tall:.1f}' fill='{colours[pool]}'>"
                yield f"<title>{escape(sample['moment'])}: {_named(pool)}, {_bytes(size)}</title></rect>"
    yield f"<text x='0' y='28'>{_bytes(most)}</text><text x='0' y='{_HEIGHT}'>0</text>"
    for number, (pool, colour) in enumerate(colours.items()):
        x = _LEFT + number * _LEGEND
        yield f"<rect x='{x}' y='{_HEIGHT + 8}' width='10' height='10' fill='{colour}'/>"
        yield f"<text x='{x + 14}' y='{_HEIGHT + 17}'>{_named(pool)}</text>"
    yield "</svg>"


def _named(pool: str) -> str:
    return "eager" if pool == "0.0" else f"pool ({pool.replace('.', ', ')})"


def _bytes(count: int) -> str:
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
