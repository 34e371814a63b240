"""From a name to a knowledge base."""

from kbnav.knowledge.open import bundled_mirror, open_kb
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from kbnav.settings.model import Settings


def test_a_served_mirror_is_known_to_be_one_by_its_url(mini_home, tmp_path):
    with MirrorServer(bundled_mirror(mini_home)) as server, open_kb(Settings(kb=server.url, home=tmp_path)) as kb:
        assert kb.state()["mirror"]["built"].startswith("20")
        assert kb.labels(["Q7186"]) == {"Q7186": "Marie Curie"}
