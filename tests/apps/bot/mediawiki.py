"""A real MediaWiki for tests: Debian's package with SQLite, served by PHP on a port of this machine."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests

from tests.ending import until

ROOT = Path("/usr/share/mediawiki")
BOT, PEOPLE, PASSWORD = "KB bot", ("Ann", "Bob", "Other bot"), "a-long-nevertobeleft"
BOT_PASSWORD = "nevertobeleft0123456789abcdefghi"
"""32 characters, of those that MediaWiki makes bot passwords of."""
NEEDED = ("mediawiki", "php-cli", "php-sqlite3", "php-mbstring", "php-xml", "php-intl", "php-curl", "php-apcu")

_USERS = """
use MediaWiki\\MediaWikiServices;
foreach ( explode( '|', '%s' ) as $name ) {
    $user = User::createNew( $name );
    $user->changeAuthenticationData( [ 'username' => $name, 'password' => '%s', 'retype' => '%s' ] );
    if ( stripos( $name, 'bot' ) !== false ) {
        MediaWikiServices::getInstance()->getUserGroupManager()->addUserToGroup( $user, 'bot' );
    }
}
$bot = BotPassword::newUnsaved( [ 'username' => '%s', 'appId' => 'test', 'grants' => MWGrants::getValidGrants() ] );
$factory = MediaWikiServices::getInstance()->getPasswordFactory();
$bot->save( 'insert', $factory->newFromPlaintext( '%s' ) );
"""
_SETTINGS = """
$wgJobRunRate = 0;
$wgMainCacheType = CACHE_ACCEL;
$wgSessionCacheType = CACHE_DB;
$wgReadOnlyFile = __DIR__ . '/readonly';
$wgRateLimits = [];
$wgPasswordAttemptThrottle = [];
$wgPingback = false;
$wgCacheDirectory = __DIR__ . '/cache';
$wgLocalisationCacheConf['store'] = 'array';
$wgUseDatabaseMessages = false;
$wgEnableUploads = false;
foreach ( json_decode( @file_get_contents( __DIR__ . '/other.json' ) ?: '[]', true ) as $name => $value ) {
    $GLOBALS[$name] = $value;
}
$wgHooks['ApiMaxLagInfo'][] = static function ( &$lag ) {
    $file = __DIR__ . '/lag';
    if ( is_readable( $file ) ) {
        $lag = [ 'host' => 'db1', 'lag' => (float)file_get_contents( $file ), 'type' => 'db' ];
    }
};
"""


_DISCUSSION_TOOLS = """
wfLoadExtension( 'VisualEditor' );
wfLoadExtension( 'Linter', '{folder}/Linter/extension.json' );
wfLoadExtension( 'DiscussionTools', '{folder}/DiscussionTools/extension.json' );
"""


def missing() -> str:
    """What of it is not installed here; empty where all is."""
    return "" if (ROOT / "maintenance/install.php").is_file() and Path("/usr/bin/php").exists() else " ".join(NEEDED)


class MediaWiki:
    """A wiki with a few users; leave the context to stop it.

    ``extensions`` is a folder with clones of DiscussionTools and Linter, at the branch of the wiki's version.
    """

    def __init__(self, folder: Path, extensions: str = "") -> None:
        self.folder, self._extensions = folder, extensions
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.api = f"http://127.0.0.1:{self.port}/api.php"

    def __enter__(self) -> Self:
        self._maintain(
            "install", "--dbtype", "sqlite", "--dbpath", f"{self.folder}/data", "--dbname", "wiki", "--server",
            f"http://127.0.0.1:{self.port}", "--scriptpath", "", "--pass", PASSWORD, "--confpath", str(self.folder),
            "Test", "Admin",
        )  # fmt: skip
        with (self.folder / "LocalSettings.php").open("a") as settings:
            settings.write(_SETTINGS + (_DISCUSSION_TOOLS.format(folder=self._extensions) if self._extensions else ""))
        if self._extensions:
            self._maintain("update", "--quick", "--skip-external-dependencies")
        names = "|".join((BOT, *PEOPLE))
        self._maintain("eval", typed=_USERS % (names, PASSWORD, PASSWORD, BOT, BOT_PASSWORD))
        self._server = subprocess.Popen(
            ["php", "-S", f"127.0.0.1:{self.port}", "-t", str(ROOT)],
            env={"MW_CONFIG_FILE": f"{self.folder}/LocalSettings.php", "PATH": "/usr/bin:/bin"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self._answers, 120)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.kill()
        self._server.wait()

    @contextmanager
    def configured(self, **settings: Any) -> Iterator[None]:
        """The wiki with other settings, by their names in PHP."""
        other = self.folder / "other.json"
        other.write_text(json.dumps(settings))
        try:
            yield
        finally:
            other.unlink()

    def _maintain(self, script: str, *arguments: str, typed: str = "") -> None:
        environment = {"PATH": "/usr/bin:/bin"}
        if script != "install":
            environment["MW_CONFIG_FILE"] = f"{self.folder}/LocalSettings.php"
        done = subprocess.run(
            ["php", str(ROOT / f"maintenance/{script}.php"), *arguments],
            input=" ".join(typed.split("\n")) + "\n",
            text=True,
            capture_output=True,
            check=False,
            env=environment,
            timeout=300,
        )
        if done.returncode or (script != "update" and "rror" in done.stdout + done.stderr):
            raise RuntimeError(f"{script}: {done.stdout[-2000:]} {done.stderr[-2000:]}")

    def _answers(self) -> bool:
        try:
            return requests.get(self.api, timeout=60).ok
        except requests.ConnectionError:
            return False


class Person:
    """A user of the wiki, through its action API."""

    def __init__(self, api: str, name: str) -> None:
        self.name, self._api, self._session = name, api, requests.Session()
        token = self.call(action="query", meta="tokens", type="login")["query"]["tokens"]["logintoken"]
        said = self.call(
            action="clientlogin", username=name, password=PASSWORD, logintoken=token, loginreturnurl="http://127.0.0.1/"
        )
        if said["clientlogin"]["status"] != "PASS":
            raise RuntimeError(str(said))
        self._token = self.call(action="query", meta="tokens")["query"]["tokens"]["csrftoken"]

    def call(self, **parameters: Any) -> dict[str, Any]:
        """The reply of the API. Raises RuntimeError for an error."""
        data = {"format": "json", "formatversion": "2", **parameters}
        reply: dict[str, Any] = self._session.post(self._api, data=data, timeout=120).json()
        if "error" in reply:
            raise RuntimeError(str(reply["error"]))
        return reply

    def act(self, **parameters: Any) -> dict[str, Any]:
        """A call that changes something."""
        return self.call(token=self._token, **parameters)

    def write(self, title: str, text: str) -> dict[str, Any]:
        """Save a page; what the wiki says of the edit."""
        return dict(self.act(action="edit", title=title, text=text)["edit"])

    def add(self, title: str, text: str) -> dict[str, Any]:
        """Save text at the end of a page; what the wiki says of the edit."""
        return dict(self.act(action="edit", title=title, appendtext=text)["edit"])

    def ask(self, title: str, section: str, text: str) -> None:
        """A new section, signed."""
        self.act(action="edit", title=title, section="new", sectiontitle=section, text=f"{text} ~~~~")

    def rights(self, user: str, **change: str) -> None:
        """Add a user to a group, or remove it."""
        token = self.call(action="query", meta="tokens", type="userrights")["query"]["tokens"]["userrightstoken"]
        self.call(action="userrights", user=user, token=token, **change)

    def text(self, title: str) -> str:
        """A page's wikitext; empty where there is none."""
        (page,) = self.call(action="query", titles=title, prop="revisions", rvprop="content", rvslots="main")["query"][
            "pages"
        ]
        return str(page["revisions"][0]["slots"]["main"]["content"]) if "revisions" in page else ""

    def parsed(self, title: str) -> dict[str, Any]:
        """A page as the wiki's own parser reads it: HTML, links, templates, categories, …"""
        wanted = "text|links|templates|categories|externallinks|iwlinks|langlinks|images|sections|properties"
        found: dict[str, Any] = self.call(action="parse", page=title, prop=wanted)["parse"]
        return found
