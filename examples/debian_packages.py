r"""Turn the package index of a Debian or Ubuntu machine into records that ``kbnav skb build`` takes.

    (apt-cache dumpavail; /usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*Translation-en*) \
        | python examples/debian_packages.py OUT
    kbnav skb build --nodes OUT/nodes.jsonl.gz --edges OUT/edges.tsv.gz --out debian.skb

Packages, virtual packages, sections, maintainers, source packages and debtags are nodes; what a package depends on,
recommends and so on are relations. Where a dependency has alternatives, each is an edge of its own. The index itself
has one line on each package; the long descriptions are in the translation files, and a package without one keeps its
line.

What such a machine has changes with every security update. An index that others can have as well is that of a release
alone, of the machine's own sources. It changes with a point release, a few times a year; ``OUT/source.json`` keeps what
the index and the archive say of it, and ``--sha256`` refuses any other:

    mkdir -p apt/lists/partial
    apt-get update -o Dir::State::Lists=$PWD/apt/lists -o APT::Architecture=amd64 -o Acquire::Languages=en
    /usr/lib/apt/apt-helper cat-file apt/lists/*_bookworm_main_*Packages* apt/lists/*_bookworm_main_*Translation-en* \
        | python examples/debian_packages.py OUT --release apt/lists/*_bookworm_InRelease
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

LINKS = {
    "Depends": "depends on",
    "Pre-Depends": "depends on",
    "Recommends": "recommends",
    "Suggests": "suggests",
    "Enhances": "enhances",
    "Conflicts": "conflicts with",
    "Breaks": "breaks",
    "Replaces": "replaces",
    "Provides": "provides",
}
SAID = ("Origin", "Suite", "Codename", "Version", "Date")
"""What an archive says of itself, in its ``InRelease``."""
KEPT = ("Version", "Homepage", "Priority", "Installed-Size", "Architecture", "Essential")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*")

Edge = tuple[str, str, str]


def stanzas(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The stanzas of a control file; lines that go on are kept with their line breaks."""
    fields: dict[str, str] = {}
    last = ""
    for line in lines:
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif line[0] in " \t":
            fields[last] += "\n" + line.strip()
        else:
            last, _, value = line.partition(":")
            fields[last] = value.strip()
    if fields:
        yield fields


def records(found: Iterable[dict[str, str]]) -> tuple[list[dict[str, object]], list[Edge]]:
    """Node records and edges; of a package that is there in several versions the first.

    A stanza without a version is the long description of the package whose short one has the same checksum.
    """
    packages: dict[str, dict[str, str]] = {}
    translations: dict[str, str] = {}
    for fields in found:
        if "Version" in fields:
            packages.setdefault(fields["Package"], fields)
        else:
            translations[fields["Description-md5"]] = fields["Description-en"]
    nodes: dict[str, dict[str, object]] = {}
    others: dict[str, dict[str, object]] = {}
    edges: list[Edge] = []
    for name, fields in packages.items():
        nodes[name] = package(fields, translations.get(fields.get("Description-md5", ""), ""))
        for relation, kind, value in named(fields):
            others.setdefault(f"{kind}:{value}", {"id": f"{kind}:{value}", "type": kind, "name": value})
            edges.append((name, relation, f"{kind}:{value}"))
        for field, relation in LINKS.items():
            edges += [(name, relation, target) for target in names(fields.get(field, ""))]
    for name in {target for _, relation, target in edges if relation == "provides"} - nodes.keys():
        others[name] = {"id": name, "type": "virtual package", "name": name}
    return [*nodes.values(), *others.values()], list(dict.fromkeys(edges))


def package(fields: dict[str, str], translation: str) -> dict[str, object]:
    """The node of a package."""
    short = fields.get("Description-en", fields.get("Description", ""))
    summary, _, text = (translation or short).partition("\n")
    record: dict[str, object] = {"id": fields["Package"], "type": "package", "name": fields["Package"]}
    record |= {"summary": summary, "description": re.sub(r"^\.$", "", text, flags=re.MULTILINE)}
    return record | {key.lower().replace("-", "_"): fields[key] for key in KEPT if key in fields}


def named(fields: dict[str, str]) -> Iterator[Edge]:
    """Relation, type and name of what a package belongs to."""
    if "Section" in fields:
        yield "in section", "section", fields["Section"]
    if "Maintainer" in fields:
        yield "maintained by", "maintainer", fields["Maintainer"].split("<")[0].strip()
    yield "built from", "source", fields.get("Source", fields["Package"]).split(" ")[0]
    for tag in fields.get("Tag", "").replace("\n", " ").split(","):
        if tag.strip():
            yield "tagged", "tag", tag.strip()


def names(value: str) -> list[str]:
    """The packages that a dependency field names, without versions and architectures, each once."""
    found = (_NAME.match(part.strip()) for part in re.split(r"[,|]", value))
    return list(dict.fromkeys(match[0] for match in found if match))


def source(release: Path | None, digest: str) -> dict[str, str]:
    """The SHA-256 of an index, and what the archive that it is from says of itself."""
    said: dict[str, str] = {}
    for line in release.read_text(encoding="utf-8").splitlines() if release else ():
        name, _, value = line.partition(": ")
        if name in SAID:
            said.setdefault(name.lower(), value)  # the signature that follows may have a "Version" too
    return {**said, "sha256": digest}


def main() -> None:
    """Write ``nodes.jsonl.gz``, ``edges.tsv.gz`` and ``source.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--release", type=Path, metavar="FILE", help="the archive's InRelease")
    parser.add_argument("--sha256", metavar="HEX", help="of what is read; any other is refused")
    chosen = parser.parse_args()
    read = sys.stdin.buffer.read()
    of = source(chosen.release, hashlib.sha256(read).hexdigest())
    if chosen.sha256 and chosen.sha256 != of["sha256"]:
        sys.exit(f"this is another index: its SHA-256 is {of['sha256']}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    nodes, edges = records(stanzas(io.StringIO(read.decode())))
    with gzip.open(chosen.out / "nodes.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(node, ensure_ascii=False) + "\n" for node in nodes)
    with gzip.open(chosen.out / "edges.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("source\trelation\ttarget\n")
        file.writelines("\t".join(edge) + "\n" for edge in edges)
    (chosen.out / "source.json").write_text(json.dumps(of, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(of))


if __name__ == "__main__":
    main()
