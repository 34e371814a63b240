"""What the long tests share with the others."""

from tests.apps.bot.conftest import mediawiki as mediawiki
