"""The tables and the plot of a mirror's growth, from ``benchmarks/results/growth.json``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log, log10
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PLOT = ROOT / "docs" / "images" / "growth.svg"
RESULTS = ROOT / "benchmarks" / "results" / "growth.md"
PAGE = ROOT / "docs" / "scale.md"
COMMAND = "python -m benchmarks.growth --tables"
SHOWN = ("build, ", "peak memory", "disk, MiB: triples", "gold", "P31/", "P106/", "search by name")
"""How the rows begin that the page has."""
Figure = Callable[[Mapping[str, Any]], float | None]


def _phase(name: str, unit: str) -> Figure:
    return lambda one: one["phases"][name][unit]


def _part(name: str) -> Figure:
    return lambda one: one["part"]["phases"][name]["mib"] if "part" in one else None


def _query(name: str, unit: str, point: str) -> Figure:
    return lambda one: one["queries"][name][unit][point] if "queries" in one else None


def _search(name: str, point: str) -> Figure:
    return lambda one: one["search_ms"][name]["cpu_ms"][point] if "search_ms" in one else None


def _total(unit: str) -> Figure:
    return lambda one: (max if unit == "mib" else sum)(phase[unit] for phase in one["phases"].values())


FIGURES: Mapping[str, Figure] = {
    "build, s by the clock": _total("seconds"),
    "build, CPU s": _total("cpu"),
    "of it triples": _phase("triples", "cpu"),
    "of it names, and merging the store": _phase("names", "cpu"),
    "of it values and texts": _phase("values", "cpu"),
    "peak memory, MiB: triples": _phase("triples", "mib"),
    "names": _phase("names", "mib"),
    "values and texts": _phase("values", "mib"),
    "peak memory of building the people alone, MiB: triples": _part("triples"),
    "names of the people": _part("names"),
    "triples of the people": lambda one: one["part"]["triples"] if "part" in one else None,
    "disk, MiB: triples": lambda one: one["disk_mib"]["triples"],
    "disk, MiB: names": lambda one: one["disk_mib"]["names.sqlite"],
    "opening, ms": lambda one: one.get("open_ms"),
    "first answer, ms": lambda one: one.get("first_ms"),
    **{
        f"{name} {point}, CPU ms": _query(name, "cpu_ms", point)
        for name in ("gold", "P31/P279*", "P106/P279*", "P131*", "P131* up")
        for point in ("p50", "p95")
    },
    **{f"search by {name}, p95, CPU ms": _search(name, "p95") for name in ("name", "four letters", "two letters")},
    "8 readers, queries/s": lambda one: one["readers"]["8"]["queries_s"] if "readers" in one else None,
}
PLOTTED = {
    "build, CPU s": "#1b6ca8",
    "peak memory, MiB: triples": "#b5482f",
    "disk, MiB: triples": "#5b7f3a",
    "P106/P279* p95, CPU ms": "#7a4fa3",
    "gold p95, CPU ms": "#c08a1e",
    "search by two letters, p95, CPU ms": "#555555",
}


def law(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The power of the size that a figure grows with, by least squares of the logarithms."""
    x, y = [log(one) for one in sizes], [log(one) for one in values]
    across, up = sum(x) / len(x), sum(y) / len(y)
    return sum((a - across) * (b - up) for a, b in zip(x, y, strict=True)) / sum((a - across) ** 2 for a in x)


def write(sizes: Sequence[Mapping[str, Any]]) -> None:
    """Write the plot, the whole table, and the part of the page between its marks."""
    PLOT.write_text(plot(sizes))
    head = "| | " + " | ".join(f"{one['triples'] / 1e6:,.1f}M" for one in sizes) + " | grows with |\n"
    head += "|---|" + "---:|" * (len(sizes) + 1) + "\n"
    rows = {name: row(name, figure, sizes) for name, figure in FIGURES.items()}
    busy = ", ".join("{begin:.0f} and {end:.0f}".format(**one["load_average"]) for one in sizes)
    compared = ", ".join(f"{one['rows']['compared']:,}" for one in sizes[1:] if "rows" in one)
    unanswered = ", ".join(str(one["rows"]["unanswered"]) for one in sizes if "rows" in one)
    checked = (
        f"""Gold queries whose rows depend on nothing else ({compared}): all rows of the slice are there at each size,
and what is there more is of the copies."""
        if compared
        else "Rows were compared at no size: there is only that of the slice."
    )
    checked += f" Unanswered in 60 s: {unanswered} of 1,308." if unanswered else ""
    RESULTS.write_text(f"""# A mirror of {", ".join(f"{one['triples'] / 1e6:,.1f}" for one in sizes)} million triples

```text
python -m benchmarks.growth --size {" ".join(f"{one['asked'] / 1e6:.9g}" for one in sizes)}
python -m benchmarks.growth --part --size {" ".join(f"{one['asked'] / 1e6:.9g}" for one in sizes if "part" in one)}
{COMMAND}
```

The real slice of Wikidata (3,365,922 triples), grown by `benchmarks/_grown.py` (seed {sizes[0]["seed"]}).
Two cores, 24 GiB, {sizes[-1]["date"]}. The machine's load average was {busy}, when each size began and ended:
a build alone makes 1 to 2, and where it was more, other work shared the two cores, which also makes a second of a
processor do less. Seconds and milliseconds of processors count the server, its child with the store, and taking the
reply; not reading its rows.
A dash: not measured. *Grows with*: the power of the size by least squares.

{head}{"".join(rows.values())}
{checked}
""")
    table = f"{head}{''.join(rows[name] for name in rows if name.startswith(SHOWN))}\n{needs(sizes)}"
    page = PAGE.read_text()
    PAGE.write_text(
        re.sub(r"(<!-- growth -->\n).*?(<!-- end -->)", lambda m: m[1] + table + m[2], page, flags=re.DOTALL)
    )


def row(name: str, figure: Figure, sizes: Sequence[Mapping[str, Any]]) -> str:
    """A line of a table; the power is left out where there are fewer than two figures."""
    found = [(one["triples"], value) for one in sizes if (value := figure(one))]
    cells = ["–" if (value := figure(one)) is None else _number(value) for one in sizes]
    power = f"n^{law(*zip(*found, strict=True)):.2f}" if len(found) > 1 else "–"
    return f"| {name} | {' | '.join(cells)} | {power} |\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def needs(sizes: Sequence[Mapping[str, Any]]) -> str:
    """What larger sizes need by the powers found: arithmetic, and nothing where there is only one size.

    Each phase's memory has a power of its own: the pieces of the first take the same at any size, the names do not.
    """
    if len(sizes) < 2:
        return ""
    last, triples = sizes[-1], [one["triples"] for one in sizes]
    phases = {name: _phase(name, "mib") for name in ("triples", "names", "values")}

    def at(figure: Figure, target: float) -> float:
        values = [figure(one) or 0 for one in sizes]
        return float(values[-1] * (target / last["triples"]) ** law(triples, values))

    rows: dict[str, Callable[[float], str]] = {
        "CPU hours to build": lambda size: _number(at(_total("cpu"), size) / 3600),
        "disk, GiB": lambda size: _number(at(lambda one: sum(one["disk_mib"].values()), size) / 1024),
        "memory of the build, GiB, and its phase": lambda size: "{1:.3g} ({0})".format(
            *max(((name, at(figure, size) / 1024) for name, figure in phases.items()), key=lambda one: one[1])
        ),
    }
    head = "| by these powers, not measured | 500M | all of Wikidata (20,000M) |\n|---|---:|---:|\n"
    return head + "".join(
        f"| {name} | {' | '.join(cell(size) for size in (5e8, 2e10))} |\n" for name, cell in rows.items()
    )


def plot(sizes: Sequence[Mapping[str, Any]]) -> str:
    """Figures over sizes, both in logarithms, each beside the line of what grows as its size does."""
    lines = {name: [(one["triples"], FIGURES[name](one)) for one in sizes] for name in PLOTTED}
    points = {name: [(x, y) for x, y in some if y is not None] for name, some in lines.items()}
    every = [y for some in points.values() for _, y in some]
    left, right = log10(min(one["triples"] for one in sizes)) - 0.1, log10(max(one["triples"] for one in sizes)) + 0.1
    low, high = floor(log10(min(every))), ceil(log10(max(every)))
    width, height, margin = 720, 440, 60

    def at(x: float, y: float) -> str:
        across = margin + (log10(x) - left) / (right - left) * (width - 310)
        up = height - margin - (log10(y) - low) / (high - low) * (height - 2 * margin)
        return f"{across:.1f},{up:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">'
        f'<title>How a mirror grows</title><rect width="{width}" height="{height}" fill="#fff"/>'
    ]
    for power in range(low, high + 1):
        x, y = at(10**left, 10.0**power).split(",")
        parts.append(f'<path d="M{x} {y}H{width - 250}" stroke="#ddd"/><text x="{float(x) - 6}" y="{float(y) + 4}"')
        parts.append(
            f' text-anchor="end">{10.0**power:,.0f}</text>'
            if power >= 0
            else f' text-anchor="end">{10.0**power}</text>'
        )
    for one in sizes:
        x, y = at(one["triples"], 10.0**low).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 18}" text-anchor="middle">{one["triples"] / 1e6:.1f}M</text>')
    for place, (name, colour) in enumerate(PLOTTED.items()):
        some = points[name]
        if not some:
            continue
        first = some[0]
        ideal = [at(x, first[1] * x / first[0]) for x, _ in some]
        parts.append(
            f'<polyline points="{" ".join(ideal)}" fill="none" stroke="{colour}" stroke-dasharray="3 4" opacity=".6"/>'
        )
        parts.append(
            f'<polyline points="{" ".join(at(*one) for one in some)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in (at(*one).split(",") for one in some)
        ]
        parts.append(f'<text x="{width - 240}" y="{margin + 20 * place}" fill="{colour}">{name}</text>')
    parts.append(
        f'<text x="{width - 240}" y="{margin + 20 * len(PLOTTED) + 10}">dotted: as its size grows</text></svg>\n'
    )
    return "".join(parts)
