"""No circle between files: what one imports, at whatever distance, does not import it. Layers are in pyproject.toml."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def files() -> dict[str, set[str]]:
    """The files of the package and what each imports of it, also in functions and for type checkers alone."""
    graph = grimp.build_graph("kbnav", "kbnav.agents", "kbnav.tools")
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_file_imports_one_that_imports_it():
    found = files()
    assert "kbnav.agents.common.policy" in found["kbnav.agents.spinach"], "imports are not seen"
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
