"""The links of an editable install and the mapping of the wheel must say the same."""

from __future__ import annotations

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


def test_links_are_kept_out_of_the_build_and_their_folders_put_in():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert set(build["exclude"]) == {f"src/kbnav/{name}" for name in ("agents", "tools", "prompts")}
    assert set(build["targets"]["wheel"]["only-include"]) == {"src/kbnav", "agents", "tools", "prompts"}
    source = build["targets"]["sdist"]["only-include"]
    assert {"src", "agents", "tools", "prompts"} <= set(source)
    assert [name for name in source if not (ROOT / name).exists()] == []
