"""The links of an editable install and the mapping of the wheel must say the same."""

import tomllib

from tests.conftest import ROOT


def wheel_mapping() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return project["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]


def test_every_link_in_the_package_is_mapped_in_the_wheel_and_the_reverse():
    package = ROOT / "src" / "kbnav"
    links = {path.name: path.resolve() for path in package.iterdir() if path.is_symlink()}
    mapped = {target.removeprefix("kbnav/"): ROOT / source for source, target in wheel_mapping().items() if target}
    assert links == mapped
    assert set(links) == {"agents", "tools", "prompts"}
