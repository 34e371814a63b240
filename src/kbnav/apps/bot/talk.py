"""Reading a talk page: its sections and comments, which of them are questions for the bot, and whether it may edit.

Pure functions over wikitext. A comment ends with a signature (a link to a user's page, then a time in UTC), as
MediaWiki's ``~~~~`` leaves it; text behind the last signature of a section is unsigned and is nobody's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

MARKER = "kbnav:"
_MARK = re.compile(rf"<!--\s*{MARKER}([0-9a-f]{{16}})\s*-->")
_HEADING = re.compile(r"^==(?!=)(.*?)(?<!=)==[ \t]*(?:<!--.*?-->)?[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TIME = re.compile(r"\b\d{1,2}[:.]\d{2}\b[^\n\[\]]{4,60}?\(UTC\)")
_INDENT = re.compile(r"^[:*#]+")


@dataclass(frozen=True)
class Names:
    """How a wiki writes a user's pages: the namespaces ``User`` and ``User talk`` with their aliases, lower case."""

    user: frozenset[str] = frozenset({"user", "user talk"})

    def user_of(self, target: str) -> str:
        """The user whose page a link's target is; empty for other pages and for subpages."""
        space, colon, name = target.partition(":")
        if not colon or _plain(space) not in self.user:
            return ""
        return normal_user(name.partition("#")[0]) if "/" not in name else ""


@dataclass(frozen=True)
class Comment:
    """One signed comment; ``text`` is without signature and indentation, ``start`` and ``end`` are offsets in the page.

    ``marker`` is the id of the question that it answers, where the bot wrote it. ``mentions`` are the users linked.
    """

    author: str
    time: str
    text: str
    depth: int
    start: int
    end: int
    marker: str = ""
    mentions: Mapping[str, int] = field(default_factory=dict)
    """Users linked in the text, and the offset behind the link."""


@dataclass(frozen=True)
class Section:
    """A section of the second level with its comments; ``body`` is what stands below the heading."""

    heading: str
    start: int
    end: int
    comments: tuple[Comment, ...]


@dataclass(frozen=True)
class Question:
    """Something to answer. ``id`` is the same whenever the same comment is read again, wherever it has moved to."""

    id: str
    page: str
    section: str
    author: str
    time: str
    text: str
    depth: int
    earlier: tuple[str, ...] = ()
    """Ids of the questions of the same section that the bot answered before, oldest first."""


def normal_user(name: str) -> str:
    """A user's name as MediaWiki has it: blanks for underscores, the first letter a capital."""
    plain = " ".join(name.replace("_", " ").split())
    return plain[:1].upper() + plain[1:]


def _plain(text: str) -> str:
    return " ".join(text.replace("_", " ").split()).lower()


def sections(page: str, names: Names = Names()) -> Iterator[Section]:
    """The sections of a page, in order; the lead has no heading and is no section."""
    heads = [head for head in _HEADING.finditer(_blanked(page)) if head[1].strip()]
    ends = [*(head.start() for head in heads[1:]), len(page)]
    for head, end in zip(heads, ends, strict=False):  # a page without sections has an end all the same
        heading = page[head.start(1) : head.end(1)].strip()
        yield Section(heading, head.start(), end, tuple(_comments(page, head.end(), end, names)))


def _blanked(page: str) -> str:
    """The page with what is not parsed (comments, nowiki, pre, code) replaced by as many dots; line breaks stay."""
    pattern = r"<!--.*?(?:-->|\Z)|<(nowiki|pre|syntaxhighlight|source)\b[^<>]*(?<!/)>.*?(?:</\1\s*>|\Z)"
    found = re.compile(pattern, re.DOTALL | re.IGNORECASE)
    return found.sub(lambda match: re.sub(r"[^\n]", ".", match[0]), page)


def _comments(page: str, start: int, end: int, names: Names) -> Iterator[Comment]:
    seen, begin = _blanked(page), start
    for time in _TIME.finditer(seen, start, end):
        signature = _signature(seen, begin, time.start(), names)
        if signature is None:
            continue
        author, cut = signature
        raw = page[begin:cut]
        stop = _line_end(page, time.end(), end)
        mark = _MARK.search(raw)
        text = _without_marks(raw)
        yield Comment(
            author=author,
            time=time[0],
            text=text,
            depth=_depth(raw),
            start=begin,
            end=stop,
            marker=mark[1] if mark else "",
            mentions=_mentions(text, names),
        )
        begin = stop


def _line_end(page: str, at: int, end: int) -> int:
    found = page.find("\n", at, end)
    return end if found < 0 else found + 1


_LINK = re.compile(r"\[\[\s*:?([^\[\]|\n]+?)\s*(?:\|[^\[\]\n]*)?\]\]")


def _signature(text: str, start: int, end: int, names: Names) -> tuple[str, int] | None:
    """Who signed before a time: the last user linked in its line, and where the run of links to that user begins."""
    line = max(start, text.rfind("\n", start, end) + 1)
    links = [(names.user_of(link[1]), link.start()) for link in _LINK.finditer(text, line, end)]
    users = [(user, at) for user, at in links if user]
    if not users:
        return None
    author = users[-1][0]
    first = users[-1][1]
    for user, at in reversed(users):
        if user != author or first - at > 200:
            break
        first = at
    return author, first


def _without_marks(raw: str) -> str:
    """A comment's text without hidden comments and without the indentation of its lines."""
    lines = _COMMENT.sub("", raw).strip().rstrip("-–— \t").split("\n")
    return "\n".join(_INDENT.sub("", line).strip() for line in lines).strip()


def _depth(raw: str) -> int:
    for line in raw.split("\n"):
        if line.strip():
            found = _INDENT.match(line)
            return len(found[0]) if found else 0
    return 0


def _mentions(text: str, names: Names) -> dict[str, int]:
    found = {user: link.end() for link in _LINK.finditer(text) if (user := names.user_of(link[1]))}
    for template in re.finditer(r"\{\{\s*(?:ping|reply to|re|@|u|user link)\s*\|([^{}]*)\}\}", text, re.IGNORECASE):
        found |= {
            normal_user(name): template.end() for name in template[1].split("|") if name.strip() and "=" not in name
        }
    return found


def questions(
    title: str, page: str, *, bot: str, own: bool, names: Names = Names(), others: Sequence[str] = ()
) -> Iterator[Question]:
    """What is asked of the bot on a page and has no reply of the bot yet, in the page's order.

    Args:
        title: of the page.
        page: its wikitext.
        bot: the bot's user name.
        own: whether every new section is a question (the bot's talk page, a configured page); elsewhere only what
            mentions the bot is one.
        names: of the wiki.
        others: users that are never answered, such as other bots.

    On its own pages the first comment of a section is a question, and later ones that mention the bot or follow one of
    its replies with a question mark; a question is the comment's text, or the text behind the mention.
    """
    silent = {normal_user(bot), *(normal_user(name) for name in others)}
    for section in sections(page, names):
        answered = [comment.marker for comment in section.comments if comment.marker]
        for place, comment in enumerate(section.comments):
            if comment.author in silent or comment.marker:
                continue
            before = section.comments[place - 1] if place else None
            follows = before is not None and before.author == normal_user(bot)
            mention = comment.mentions.get(normal_user(bot))
            asked = mention is not None or (own and (place == 0 or (follows and _asks(comment.text))))
            text = comment.text[mention or 0 :].lstrip(" ,:;-–—\n") or comment.text
            if place == 0 and own and mention is None:
                text = comment.text or section.heading
            number = question_id(comment)
            if asked and text.strip() and number not in answered:
                earlier = [c.marker for c in section.comments[:place] if c.marker]
                yield Question(
                    number, title, section.heading, comment.author, comment.time, text, comment.depth, tuple(earlier)
                )


def _asks(text: str) -> bool:
    return any(mark in text for mark in "?？؟;՞፧⸮")


def question_id(comment: Comment) -> str:
    """16 hexadecimal digits made of who signed when, and the words: the same on whatever page it is read."""
    parts = "\0".join((comment.author, comment.time, " ".join(comment.text.split())))
    return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:16]


def with_reply(page: str, question: Question, reply: str, names: Names = Names()) -> str | None:
    """The page with a reply at the end of the section of its question; None where the question is no longer there.

    A page that holds the question's marker is given back as it is: it has been answered.
    """
    if question.id in markers(page):
        return page
    for section in sections(page, names):
        for comment in section.comments:
            if question_id(comment) == question.id:
                body = page[: section.end].rstrip("\n")
                rest = page[section.end :]
                return f"{body}\n{reply.rstrip()}\n" + (f"\n{rest}" if rest else "")
    return None


def markers(page: str) -> set[str]:
    """Ids of the questions that have a reply on a page."""
    return set(_MARK.findall(page))


def marker(question_id: str) -> str:
    """What a reply carries in a hidden comment."""
    return f"{MARKER}{question_id}"


def may_edit(page: str, bot: str, *, kind: str = "") -> bool:
    """Whether ``{{nobots}}`` and ``{{bots|allow=…|deny=…|optout=…}}`` let this bot edit the page.

    ``kind`` is the kind of message, for ``optout``. Names compare as user names do; ``all`` and ``none`` are known.
    """
    visible = _blanked(page)
    if re.search(r"\{\{\s*nobots\s*\}\}", visible, re.IGNORECASE):
        return False
    me = normal_user(bot)
    for found in re.finditer(r"\{\{\s*(nobots|bots)\s*\|([^{}]*)\}\}", visible, re.IGNORECASE):
        options = dict(part.split("=", 1) for part in found[2].split("|") if "=" in part)
        named = {
            key.strip().lower(): {item.strip().lower() if item.strip().lower() in ("all", "none") else normal_user(item)
                                  for item in value.split(",") if item.strip()}
            for key, value in options.items()
        }  # fmt: skip
        if found[1].lower() == "nobots" and not named:
            return False
        if named.get("allow") and not ({me, "all"} & named["allow"]):
            return False
        if {me, "all"} & named.get("deny", set()):
            return False
        if kind and {"all", normal_user(kind)} & named.get("optout", set()):
            return False
    return True


def signed_at(time: str) -> datetime | None:
    """The time of a signature in English; None in another language."""
    try:
        return datetime.strptime(time.removesuffix("(UTC)").strip(), "%H:%M, %d %B %Y").replace(tzinfo=UTC)
    except ValueError:
        return None
