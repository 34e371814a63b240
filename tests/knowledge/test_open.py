"""From a name to a knowledge base."""

import pytest

from kbnav.errors import ServiceError, UsageError
from kbnav.knowledge.open import bundled_mirror, open_kb
from kbnav.knowledge.wikidata.mirror.server import MirrorServer
from kbnav.settings.model import Settings


def test_a_served_mirror_is_known_to_be_one_by_its_url(mini_home, tmp_path):
    with MirrorServer(bundled_mirror(mini_home)) as server, open_kb(Settings(kb=server.url, home=tmp_path)) as kb:
        assert kb.state()["mirror"]["built"].startswith("20")
        assert kb.labels(["Q7186"]) == {"Q7186": "Marie Curie"}


def test_a_url_where_nothing_listens_is_a_service_error(tmp_path):
    settings = Settings(kb="http://127.0.0.1:9", home=tmp_path, limits={"retries": 0})
    with pytest.raises(ServiceError, match="cannot be reached"), open_kb(settings):
        pass


def test_a_name_of_nothing_is_wrong_use(tmp_path):
    with pytest.raises(UsageError, match="no knowledge base 'nowhere'"), open_kb(Settings(kb="nowhere", home=tmp_path)):
        pass
