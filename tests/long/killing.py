"""Work of kbnav's in a process that is killed at random moments, and begun again, until it was killed often enough.

``python -m tests.long.killing KIND KILLS SEED FOLDER [MORE…]`` prints JSON: how often it was killed, and how often the
work came to its end. Each process is forked from this one, which has the modules loaded and does nothing else.
"""

import hashlib
import importlib
import json
import os
import pickle
import random
import re
import signal
import statistics
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from kbnav.apps.bot.bot import Bot
from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import MARKER
from kbnav.settings.model import Bot as Rules
from kbnav.settings.model import Settings
from tests.apps.bot.mediawiki import BOT, Person
from tests.apps.bot.parts import connect, run_of

T = TypeVar("T")
NAMES = "modules.json"
LONGER = 1.25
"""Moments are drawn from the time that the work mostly took from its beginning to its end, and a quarter more.

The first time alone may be one that the machine did much else in: most moments drawn from it would come after the end.
"""


class Lost(AssertionError):
    """What was said to be kept is not there, or there twice."""


class Kind(ABC):
    """A kind of work. Whatever looks at what is left is run in a process of its own too, as ``alone`` does."""

    share: float
    """Of all kills."""
    folder: Path

    @abstractmethod
    def begin(self, folder: Path) -> None:
        """Make ready, in an empty folder, what the work needs."""

    @abstractmethod
    def work(self) -> None:
        """The work, in a process that may be killed: from where it stands to its end."""

    def beside(self) -> None:  # noqa: B027 - not all have some
        """What goes on beside it, in a process that is not killed, and ends with it. Raises Lost."""

    def look(self, said: str) -> None:  # noqa: B027 - the same
        """Raise Lost where something is missing after a kill or an end; ``said`` is what the work printed."""

    @abstractmethod
    def whole(self) -> None:
        """Raise Lost where the work that came to its end is not as if it had never been killed."""


def kill_often(kind: Kind, kills: int, chance: random.Random, folder: Path) -> tuple[int, int]:
    """Kill until it was done ``kills`` times; how often, and how often the work came to its end."""
    done = ended = number = 0
    seconds: list[float] = []
    while done < kills or not ended:
        (place := folder / str(number)).mkdir(parents=True)
        kind.begin(place)
        before = done
        while True:
            out = place / "said.txt"
            delay = chance.uniform(0, statistics.median(seconds) * LONGER) if seconds and done < kills else None
            began = time.monotonic()
            killed = not run(kind, out, delay)
            if not killed and done == before:
                seconds.append(time.monotonic() - began)
            alone(lambda said: kind.look(said), out.read_text(errors="replace"))
            done += killed
            if not killed:
                break
        alone(kind.whole)
        ended += 1
        number += 1
    return done, ended


def load_as(kind: Kind, folder: Path) -> None:
    """Load what else the work loads, which is done once for that: kills are for kbnav, not for Python's imports."""
    folder.mkdir(parents=True)
    kind.begin(folder)
    work = kind.work
    kind.work = lambda: naming(work, folder / NAMES)  # type: ignore[method-assign]
    run(kind, folder / "said.txt", None)
    for module in json.loads((folder / NAMES).read_text()):
        with suppress(ImportError):  # made up by a library for its own use
            importlib.import_module(module)


def naming(work: Callable[[], None], names: Path) -> None:
    """Do the work, and write now and then which modules are loaded: a server is ended by a signal, and says no more."""

    def write() -> None:
        while True:
            (part := names.with_suffix(".part")).write_text(json.dumps(sorted(sys.modules)))
            part.replace(names)
            time.sleep(0.1)

    threading.Thread(target=write, daemon=True).start()
    work()


def run(kind: Kind, out: Path, delay: float | None) -> bool:
    """Whether the work came to its end before it was killed. Raises RuntimeError where it failed by itself."""
    out.write_text("")
    (over := out.with_name("over")).unlink(missing_ok=True)
    other = fork(kind.beside, beside := out.with_name("beside.txt"))
    child = fork(kind.work, out)
    until = None if delay is None else time.monotonic() + delay
    status = None
    while status is None:
        time.sleep(0.002)
        if os.waitid(os.P_PID, other, os.WEXITED | os.WNOHANG | os.WNOWAIT) and beside.stat().st_size:
            break
        if until is not None and time.monotonic() > until:
            break
        ended, code = os.waitpid(child, os.WNOHANG)
        status = code if ended else None
    if status is None:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    over.touch()
    if os.waitpid(other, 0)[1]:
        raise Lost(beside.read_text(errors="replace"))
    if status not in (0, signal.SIGKILL, signal.SIGTERM):  # a server's end
        raise RuntimeError(f"it ended with status {status}: {out.read_text(errors='replace')[-2000:]}")
    return status != signal.SIGKILL


def fork(work: Callable[[], object], out: Path) -> int:
    """A process that does the work and prints into a file; its number."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for standard in (1, 2):
            os.dup2(handle, standard)
        work()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - whatever it is, it is told
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def alone(call: Callable[..., T], *given: Any) -> T:
    """What a call gives, made in a process of its own: threads and open stores would not survive the next fork."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(2, 1)
        try:
            result: tuple[bool, Any] = (True, call(*given))
        except SystemExit as end:
            result = (not end.code, f"it ended with code {end.code}")
        except BaseException:  # noqa: BLE001 - raised again where it is waited for
            result = (False, traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(pickle.dumps(result))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    well, value = pickle.loads(told)
    if not well:
        raise Lost(value)
    return value  # type: ignore[no-any-return]


def command(arguments: Sequence[str], typed: str = "") -> Callable[[], None]:
    """A command of kbnav's, as work."""

    def work() -> None:
        from kbnav.apps.cli import main

        reader, writer = os.pipe()
        os.write(writer, typed.encode())
        os.close(writer)
        os.dup2(reader, 0)
        sys.stdin = os.fdopen(0)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        sys.argv = ["kbnav", *arguments]
        main()

    return work


QUESTIONS = (
    ("Who discovered polonium?", "Marie Curie"),
    ("Which elements were discovered by Marie Curie?", "polonium"),
    ("What is the atomic number of tungsten?", "74"),
)
SAID_TO_BE_KEPT = re.compile(r"every step: kbnav show (run-\S+)")
VARYING = {"built", "updated", "seconds", "checksum", "data", "files", "time"}
"""What of a ``meta.json`` differs between two builds of the same."""


def must(true: object, what: object) -> None:
    """Raise Lost unless something holds."""
    if not true:
        raise Lost(what)


class Asking(Kind):
    """Work in a home that has the bundled mirror."""

    def begin(self, folder: Path) -> None:
        self.folder, self.home = folder, folder / "home"
        bundled = folder.parent / "bundled"
        alone(unpack, bundled)
        self.home.mkdir()
        (self.home / "mirrors").symlink_to(bundled / "mirrors")
        os.environ["KBNAV_HOME"] = str(self.home)
        os.chdir(folder)

    def runs(self) -> dict[str, Any]:
        """Those that are saved, all of which can be read."""
        from kbnav.runs.trajectory import load_run

        return {path.stem: load_run(path) for path in (self.home / "runs").glob("*.json")}

    def look(self, said: str) -> None:
        missing = set(SAID_TO_BE_KEPT.findall(said)) - self.runs().keys()
        must(not missing, f"said to be kept, and not there: {missing}")


def unpack(home: Path) -> None:
    """Unpack the bundled mirror into a home."""
    from kbnav.knowledge.open import bundled_mirror

    bundled_mirror(home)


class Ask(Asking):
    """``kbnav ask``."""

    share = 0.15

    def work(self) -> None:
        command(["ask", "--kb", "mini", QUESTIONS[0][0]])()

    def whole(self) -> None:
        must(any(QUESTIONS[0][1] in run.outcome.text for run in self.runs().values()), "no answer was saved")


class Chat(Asking):
    """``kbnav chat``, gone on with; each question is answered once in the session, whoever was killed meanwhile."""

    share = 0.15

    def begin(self, folder: Path) -> None:
        super().begin(folder)
        self.answered = 0

    def work(self) -> None:
        session, left = self._state()
        typed = "".join(f"{question}\n" for question in left)
        command(["chat", "--kb", "mini", *(["--session", session] if session else [])], typed)()

    def look(self, said: str) -> None:
        super().look(said)
        (self.folder / "told.txt").open("a").write("kept\n" * len(SAID_TO_BE_KEPT.findall(said)))
        _, left = self._state()
        told = (self.folder / "told.txt").read_text().count("kept")
        must(len(QUESTIONS) - len(left) >= told, f"{told} answers were told, {len(left)} questions are left")

    def whole(self) -> None:
        must(self._turns() == [question for question, _ in QUESTIONS], self._turns())
        for question, answer in QUESTIONS:
            must(any(run.question == question and answer in shown(run) for run in self.runs().values()), question)

    def _state(self) -> tuple[str, list[str]]:
        """The session, if there is one, and the questions that are neither answered in it nor begun."""
        session, turns, begun = alone(session_of, self.home)
        return session, [question for question, _ in QUESTIONS if question not in (*turns, begun)]

    def _turns(self) -> list[str]:
        return alone(session_of, self.home)[1]


def shown(run: Any) -> str:
    """The answer of a run, in words or as its rows."""
    rows = run.outcome.table.rows if run.outcome.table else ()
    return run.outcome.text + " ".join(str(cell) for row in rows for cell in row)


def session_of(home: Path) -> tuple[str, list[str], str]:
    """The only session of a home, the questions that were answered in it, and the one that was begun."""
    from kbnav.agents.common.agent import build_agent
    from kbnav.knowledge.open import open_kb
    from kbnav.sessions.session import Chat as Session
    from kbnav.sessions.session import sqlite_sessions

    settings = Settings(kb="mini", home=home)
    with sqlite_sessions(home) as saver, open_kb(settings) as kb:
        names = {one.config["configurable"]["thread_id"] for one in saver.list(None)}
        must(len(names) <= 1, f"one session became {names}")
        for name in names:
            session = Session(build_agent(kb, settings, ""), name, saver)
            return name, [turn.question for turn in session.history], session.unfinished or ""
    return "", [], ""


class Evaluation(Asking):
    """``kbnav eval run``: each question is recorded once, and what was recorded stays as it is."""

    share = 0.15

    def begin(self, folder: Path) -> None:
        from tests.evaluation.parts import mini_dataset

        super().begin(folder)
        mini_dataset(folder / "mini.jsonl")

    def work(self) -> None:
        command(["eval", "run", "mini.jsonl", "--kb", "mini", "--limit", "6", "--out", "out"])()

    def look(self, said: str) -> None:
        kept, seen = self._records(), self.folder / "seen.json"
        before = json.loads(seen.read_text()) if seen.exists() else {}
        must(before.items() <= kept.items(), "what was recorded has changed")
        seen.write_text(json.dumps(kept))

    def whole(self) -> None:
        records = self._records()
        must(len(records) == 6, f"{len(records)} records")
        whole = self.folder.parent / "evaluation.json"
        answers = {key: (one["status"], one["rows"]) for key, one in records.items()}
        if whole.exists():
            must(json.loads(json.dumps(answers)) == json.loads(whole.read_text()), "other answers than without a kill")
        else:
            whole.write_text(json.dumps(answers))

    def _records(self) -> dict[str, Any]:
        from kbnav.evaluation.records import QUESTIONS as FILE
        from kbnav.evaluation.records import read_records

        path = self.folder / "out" / FILE
        if not path.exists():
            return {}
        ids = [json.loads(line)["id"] for line in path.read_bytes().split(b"\n")[:-1]]
        must(len(ids) == len(set(ids)), "a question is recorded twice")
        return {
            key: {"status": one.run.outcome.status, "rows": shown(one.run)}
            for key, one in read_records(self.folder / "out").items()
        }


class Building(Kind):
    """A build of something: gone on with or begun anew, it ends as one that was never killed."""

    def whole(self) -> None:
        whole = self.folder.parent / "whole.json"
        found = self.contents()
        if not whole.exists():
            whole.write_text(json.dumps(found))
            return
        expected = json.loads(whole.read_text())
        wrong = [key for key in {*found, *expected} if found.get(key) != expected.get(key)]
        must(not wrong, f"other than without a kill: {wrong}")
        left = [path.name for path in self.folder.iterdir() if "unfinished" in path.name]
        must(not left, f"left behind: {left}")

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """What was built, in a form that two builds have in common."""


def hashes(folder: Path, but: Iterable[str]) -> dict[str, Any]:
    """SHA-256 of all files but those below the folders ``but``."""
    left = [folder / name for name in but]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(path.is_relative_to(one) for one in left)
    }


def triples(store: Path) -> str:
    """A hash of a store's triples."""
    import pyoxigraph

    quads = sorted(map(str, pyoxigraph.Store.read_only(str(store))))
    return hashlib.sha256("\n".join(quads).encode()).hexdigest()


def described(meta: Path) -> dict[str, Any]:
    """A ``meta.json`` without what differs from build to build."""
    return {key: value for key, value in json.loads(meta.read_bytes()).items() if key not in VARYING}


class SkbBuild(Building):
    """``kbnav skb build``."""

    share = 0.2

    def begin(self, folder: Path) -> None:
        self.folder = folder
        os.chdir(folder)
        chance, words = random.Random(5), [f"word{number}" for number in range(300)]
        nodes = [
            {"id": f"n{one}", "name": " ".join(chance.sample(words, 2)), "type": chance.choice("abc"),
             "text": " ".join(chance.choices(words, k=30))}
            for one in range(1500)
        ]  # fmt: skip
        edges = [
            {"source": f"n{chance.randrange(1500)}", "relation": chance.choice("xyz"), "target": f"n{number % 1500}"}
            for number in range(5000)
        ]
        for name, records in (("n.jsonl", nodes), ("e.jsonl", edges)):
            (folder / name).write_text("".join(json.dumps(one) + "\n" for one in records))

    def work(self) -> None:
        command(["skb", "build", "--nodes", "n.jsonl", "--edges", "e.jsonl", "--out", "a.skb", "--encoder", "lsa"])()

    def contents(self) -> dict[str, Any]:
        from kbnav.knowledge.skb.maintenance import check
        from kbnav.knowledge.skb.schema import META, TRIPLES
        from kbnav.knowledge.skb.store import SKB

        skb = self.folder / "a.skb"
        must(check(skb) == [], check(skb))
        data = skb / json.loads((skb / META).read_bytes())["data"]
        must([one.name for one in skb.iterdir() if one.is_dir()] == [data.name], "more than one folder of data")
        with SKB.open(skb) as opened:
            found = [opened.text.search(f"word{number} word{number + 9}", limit=5) for number in range(0, 290, 40)]
        return {
            **hashes(data, ("text", "names", TRIPLES)),
            "meta": described(skb / META),
            "triples": triples(data / TRIPLES),
            "search": repr(found),
        }


class MirrorBuild(Building):
    """``kbnav mirror build`` over an older mirror, which is there and whole until the new one is."""

    share = 0.2

    def begin(self, folder: Path) -> None:
        self.folder = folder
        os.chdir(folder)
        for name, entities in (("old", 5), ("new", 1200)):
            begins, label = "<http://www.wikidata.org/entity/Q", "<http://www.w3.org/2000/01/rdf-schema#label>"
            lines = [f'{begins}{one}> {label} "{name} {one}"@en .\n' for one in range(1, entities + 1)]
            (folder / f"{name}.nt").write_text("".join(lines))
        alone(command(["mirror", "build", "old.nt", "--out", "m"]))

    def work(self) -> None:
        command(["mirror", "build", "new.nt", "--out", "m"])()

    def look(self, said: str) -> None:
        from kbnav.knowledge.wikidata.mirror.build import REPLACED
        from kbnav.knowledge.wikidata.mirror.mirror import read_info

        # Between two renames the old one lies in the work folder, from which the next build takes it.
        places = [self.folder / "m", *self.folder.glob(f".m.*.unfinished/{REPLACED}")]
        found = next((place for place in places if place.exists()), None)
        must(found and read_info(found).triples in (5, 1200), "no mirror")

    def contents(self) -> dict[str, Any]:
        from kbnav.knowledge.wikidata.mirror.mirror import META, NAMES, TRIPLES

        mirror = self.folder / "m"
        return {
            **hashes(mirror, (TRIPLES, META, NAMES)),
            "meta": described(mirror / META),
            "triples": triples(mirror / TRIPLES),
        }


class Serve(Asking):
    """``kbnav serve``, asked meanwhile: what it took is answered, once, and what it answered stays."""

    share = 0.1

    def begin(self, folder: Path) -> None:
        super().begin(folder)
        (folder / "accepted.jsonl").touch()

    def work(self) -> None:
        (self.folder / "server.pid").write_text(str(os.getpid()))
        command(["serve", "--kb", "mini", "--port", "0"])()

    def look(self, said: str) -> None:
        self.runs()

    def whole(self) -> None:
        kept = self._kept()
        must(len(kept) >= len(QUESTIONS) and all(one["answer"] for one in kept.values()), kept)

    def beside(self) -> None:
        """Ask what is left, and look after what was asked before; then end the server."""
        import requests

        with suppress(requests.RequestException, Over):
            visit = self._come(requests.Session())
            for run in self._kept():
                self._wait(visit, run)
            for number in range(len(self._kept()), len(QUESTIONS)):
                session = visit("POST", "/api/sessions", {})["id"]
                run = visit("POST", f"/api/sessions/{session}/questions", {"question": QUESTIONS[number][0]})
                self._keep({"run": run["id"], "session": session, "question": QUESTIONS[number], "answer": ""})
                self._wait(visit, run["id"])
            for run, one in self._kept().items():
                runs = visit("GET", f"/api/sessions/{one['session']}")["runs"]
                must([each["id"] for each in runs] == [run], f"asked once, kept as {runs}")
            os.kill(int((self.folder / "server.pid").read_text()), signal.SIGTERM)

    def _come(self, http: Any) -> Any:
        """Calls of one browser, once the server listens."""
        cookie, url = self.folder / "cookie.json", ""
        while not (found := re.search(r"http://[^/\s]+", (self.folder / "said.txt").read_text())):
            self._pause()
        url = found[0]
        if cookie.exists():
            http.cookies.update(json.loads(cookie.read_text()))
        http.get(f"{url}/", timeout=30)
        cookie.write_text(json.dumps(dict(http.cookies)))

        def visit(method: str, path: str, body: Any = None) -> Any:
            told = http.request(method, url + path, json=body, timeout=30)
            must(told.ok, f"{method} {path}: {told.status_code} {told.text}")
            return told.json()

        return visit

    def _wait(self, visit: Any, run: str) -> None:
        """Wait for the end of a run, which stays what it was told to be."""
        one = self._kept()[run]
        while (told := visit("GET", f"/api/runs/{run}"))["status"] not in ("done", "failed"):
            self._pause()
        answer = json.dumps(told["answer"], sort_keys=True)
        must(not one["answer"] or one["answer"] == answer, f"{one['answer']} became {answer}")
        must(one["question"][1] in answer or "it is not tried again" in answer, f"{one['question']}: {answer}")
        if not one["answer"]:
            self._keep({**one, "answer": answer})

    def _keep(self, what: dict[str, Any]) -> None:
        with (self.folder / "accepted.jsonl").open("a") as file:
            file.write(json.dumps(what) + "\n")

    def _kept(self) -> dict[str, Any]:
        lines = map(json.loads, (self.folder / "accepted.jsonl").read_text().splitlines())
        return {one["run"]: one for one in lines}

    def _pause(self) -> None:
        time.sleep(0.02)
        if (self.folder / "over").exists():
            raise Over


class BotAnswers(Kind):
    """The bot, with a scripted answer, on a wiki that is not killed: each question gets its reply, once."""

    share = 0.05
    pages, each = 4, 10

    def begin(self, folder: Path) -> None:
        self.folder, self.api = folder, os.environ["WIKI_API"]
        self.titles = [f"Project talk:Questions {folder.name} {page}" for page in range(self.pages)]
        alone(self._ask)

    def work(self) -> None:
        wiki, ledger = connect(self.api), Ledger(self.folder / "bot.sqlite")
        wiki.login()
        rules = Rules(pages=tuple(self.titles), questions_per_user_per_day=1000, questions_per_day=1000)
        bot = Bot(wiki, ledger, lambda question, _: run_of(question), lambda _: None, Settings(bot=rules), edits=True)

        def stop(seconds: float) -> bool:
            time.sleep(min(seconds, 0.05))
            return sum(entry.status == "posted" for entry in ledger.entries()) == self.pages * self.each

        for _ in bot.rounds(stop):
            pass

    def whole(self) -> None:
        ann = Person(self.api, "Ann")
        for title in self.titles:
            text = ann.text(title)
            marks = Counter(part[:16] for part in text.split(MARKER)[1:])
            must(len(marks) == self.each and set(marks.values()) == {1}, f"replies on {title}: {marks}")
            answers = [text.count(f"Answer to {title[-1]}, is it {number}?") for number in range(self.each)]
            must(answers == [1] * self.each, f"{title}: {answers}")
            asked: dict[str, Any] = {"action": "query", "titles": title, "prop": "revisions", "rvprop": "ids"}
            (page,) = ann.call(**asked, rvuser=BOT, rvlimit="50")["query"]["pages"]
            must(len(page["revisions"]) == self.each, f"{title}: {len(page['revisions'])} edits")

    def _ask(self) -> None:
        ann, ledger = Person(self.api, "Ann"), Ledger(self.folder / "bot.sqlite")
        for title in self.titles:
            ann.write(title, "Lead.\n")
            ledger.set_mark(f"page {title}", "1")  # the bot has looked before
            sections = [f"== Question {number} ==\n{title[-1]}, is it {number}? ~~~~\n" for number in range(self.each)]
            ann.write(title, "\n".join(sections))
        ledger.close()


class Over(Exception):
    """The server was killed."""


KINDS: dict[str, type[Kind]] = {
    "skb build": SkbBuild,
    "mirror build": MirrorBuild,
    "ask": Ask,
    "chat": Chat,
    "eval run": Evaluation,
    "serve": Serve,
    "bot": BotAnswers,
}


def main(name: str, kills: int, seed: int, folder: Path) -> None:
    """Kill one kind of work."""
    load_as(KINDS[name](), folder / "first")
    done, ended = kill_often(KINDS[name](), kills, random.Random(f"{name} {seed}"), folder)
    print(json.dumps({"kills": done, "ended": ended}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
