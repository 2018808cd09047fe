"""The suite's result as one HTML page that needs nothing else: verdicts, errors, reserved bytes over time, stale pointers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from graphlint.validation.outcome import CaseOutcome, Outcome
from graphlint.validation.runner import Done
from graphlint.validation.verdict import Verdict

_STYLE = """
:root { color-scheme: light dark; --fine: #2c8a4b; --bad: #c4372c; --dim: #8887; --line: #8884; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem } h3 { font-size: 1rem; margin: 1rem 0 .2rem }
code, pre, .mono { font: 13px/1.45 ui-monospace, monospace } pre { overflow-x: auto; white-space: pre-wrap; margin: .3rem 0 }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top }
.confirmed { color: var(--fine) } .refuted, .faulty, .not { color: var(--bad) } .skipped, small { color: gray }
.tag { border: 1px solid; border-radius: .7rem; padding: 0 .55rem; font-size: .85rem; white-space: nowrap }
summary { cursor: pointer } details { margin: .2rem 0 } svg { display: block; max-width: 100%; margin: .4rem 0 } svg text { font: 11px sans-serif; fill: currentColor }
"""
_COLOURS = ("#4878a8", "#d0803c", "#5a9e54", "#b5534f", "#8b6fb0", "#8a6b52", "#c884b2", "#7f7f7f")

_WIDTH, _HEIGHT, _LEFT = 900, 150, 62


def render(outcome: Outcome) -> str:
    """The page."""
    return "".join(_page(outcome))


def _page(outcome: Outcome) -> Iterator[str]:
    device = outcome.device
    ran = [case for case in outcome.cases if not case.skipped]
    confirmed = sum(case.confirmed for case in ran)
    yield f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'><title>graphlint validate</title><style>{_STYLE}</style>"
    yield f"<h1>graphlint validate: {confirmed} of {len(ran)} cases confirmed</h1>"
    yield (
        f"<p>{device['devices']} × {escape(str(device['name']))}, driver {escape(str(device['driver']))}, "
        f"torch {escape(str(device['torch']))}, CUDA {escape(str(device['cuda']))}, Python {escape(str(device['python']))}; "
        f"{outcome.when:%Y-%m-%d %H:%M} UTC, {outcome.seconds:.0f} s</p>"
    )
    yield "<table><tr><th>case<th>verdict<th>bad shows it<th>fixed clean<th>wrong rejected<th>rewrite</tr>"
    for case in outcome.cases:
        wrong = case.count(*(wrong.name for wrong in case.case.wrong))
        cells = (
            "{} of {}".format(*case.count("bad")),
            "{} of {}".format(*case.count("fixed")),
            "{} of {}".format(*wrong),
        )
        yield f"<tr><td><a href='#{_anchor(case)}'>{escape(case.case.title)}</a><td>{_tag(case.verdict)}"
        yield "".join(f"<td>{cell}" for cell in (*cells, escape(case.compared.note))) + "</tr>"
    yield "</table>"
    for case in outcome.cases:
        yield from _case(case)
    yield "</html>\n"


def _case(case: CaseOutcome) -> Iterator[str]:
    yield f"<h2 id='{_anchor(case)}'>{escape(case.case.title)} {_tag(case.verdict)}</h2><p>{escape(case.case.summary)}"
    yield f"<br><small>sources {case.case.digest()[:16]}</small></p>"
    if case.skipped:
        yield f"<p class=skipped>skipped: {escape(case.skipped)}</p>"
    groups: dict[tuple[str, str], list[Done]] = {}
    for done in case.done:
        groups.setdefault((done.run.variant, done.run.setting.value), []).append(done)
    for (variant, setting), runs in groups.items():
        worst = next((done for done in runs if done.judged.verdict is not Verdict.CONFIRMED), runs[0])
        right = sum(done.judged.verdict is Verdict.CONFIRMED for done in runs)
        is_open = " open" if right < len(runs) else ""
        yield f"<details{is_open}><summary><b>{escape(variant)}</b> · {setting} · {_tag(worst.judged.verdict.value)} {right} of {len(runs)} · {escape(worst.judged.reason)}</summary>"
        yield from _run(worst)
        yield "</details>"


def _run(done: Done) -> Iterator[str]:
    judged, ended = done.judged, done.ended
    yield f"<p><small>exit status {ended.status}, {ended.seconds:.1f} s, {judged.audits} audits of {judged.pointers} blocks</small></p>"
    if judged.failures:
        yield "<ul>" + "".join(f"<li class=mono>{escape(failure.text)}" for failure in judged.failures[:12]) + "</ul>"
    stale = [(event["moment"], each) for event in ended.events if event["event"] == "audit" for each in event["stale"]]
    if stale:
        yield "<h3>Stale pointers</h3><table><tr><th>before<th>address<th>bytes<th>pool<th>now<th>freed by</tr>"
        for moment, each in stale[:20]:
            by = " ← ".join(f"{frame[2]} ({frame[0]}:{frame[1]})" for frame in each["freed"]) or "unknown"
            row = (moment, each["address"], each["size"], tuple(each["pool"]), each["state"], by)
            yield "<tr>" + "".join(f"<td class=mono>{escape(str(cell))}" for cell in row) + "</tr>"
        yield "</table>"
    samples = [event for event in ended.events if event["event"] == "sample"]
    if samples:
        yield "<h3>Reserved bytes by pool</h3>" + _timeline(samples)
    if done.judged.verdict is not Verdict.CONFIRMED and ended.stderr.strip():
        yield f"<details><summary>standard error</summary><pre>{escape(ended.stderr[-6000:])}</pre></details>"


def _timeline(samples: Sequence[Mapping[str, Any]]) -> str:
    """Bytes of each pool, stacked, from one moment to the next."""
    pools = sorted({pool for sample in samples for pool in sample["pools"]}, key=lambda pool: (pool != "0.0", pool))
    most = max(sum(sample["pools"].values()) for sample in samples) or 1
    step = (_WIDTH - _LEFT) / len(samples)

    def height(count: int) -> float:
        return count / most * (_HEIGHT - 24)

    parts = [f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT + 22}' role=img aria-label='reserved bytes by pool'>"]
    for index, sample in enumerate(samples):
        top = float(_HEIGHT)
        for number, pool in enumerate(pools):
            tall = height(sample["pools"].get(pool, 0))
            if tall:
                top -= tall
                title = f"{sample['moment']}: pool {pool} {_bytes(sample['pools'][pool])}"
                parts.append(
                    f"<rect x='{_LEFT + index * step:.1f}' y='{top:.1f}' width='{max(step - 0.6, 0.6):.1f}' height='{tall:.1f}' "
                    f"fill='{_COLOURS[number % len(_COLOURS)]}'><title>{escape(title)}</title></rect>"
                )
    parts.append(f"<text x='0' y='28'>{_bytes(most)}</text><text x='0' y='{_HEIGHT}'>0</text>")
    for number, pool in enumerate(pools):
        x = _LEFT + number * 120
        name = "eager" if pool == "0.0" else f"pool ({pool.replace('.', ', ')})"
        parts.append(
            f"<rect x='{x}' y='{_HEIGHT + 8}' width='10' height='10' fill='{_COLOURS[number % len(_COLOURS)]}'/>"
            f"<text x='{x + 14}' y='{_HEIGHT + 17}'>{name}</text>"
        )
    return "".join((*parts, "</svg>"))


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _tag(verdict: str) -> str:
    return f"<span class='tag {verdict.split()[0]}'>{verdict}</span>"


def _anchor(case: CaseOutcome) -> str:
    return case.case.title.replace("/", "-")
