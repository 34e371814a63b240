"""What these tests share with those of the page."""

from tests.apps.web.conftest import database, fresh_home, web_home

__all__ = ["database", "fresh_home", "web_home"]
