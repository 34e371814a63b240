import gzip
from itertools import islice
from pathlib import Path

import pytest

from kbnav.knowledge.wikidata.mirror.build import build_mirror


@pytest.fixture(scope="session")
def part_of_slice(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A mirror of the first lines of three layers of real facts, and these lines by layer."""
    folder = tmp_path_factory.mktemp("slice")
    lines = {}
    for layer, count in (("1_entity_docs", 30_000), ("4_codex", 5_000), ("7_properties", 20_000)):
        with gzip.open(shared_data / "wikidata-slice" / f"{layer}.nt.gz", "rt", encoding="utf-8") as file:
            lines[layer] = list(islice(file, count))
        (folder / f"{layer}.nt").write_text("".join(lines[layer]), encoding="utf-8")
    build_mirror(sorted(folder.glob("*.nt")), folder / "mirror")
    return folder / "mirror", lines
