"""Homes with the bundled knowledge bases and a browser, as the tests of the page have them."""

from tests.apps.web.conftest import browser as browser
from tests.apps.web.conftest import database as database
from tests.apps.web.conftest import fresh_home as fresh_home
from tests.apps.web.conftest import page as page
from tests.apps.web.conftest import server as server
from tests.apps.web.conftest import web_home as web_home
