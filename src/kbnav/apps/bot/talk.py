"""Reading a talk page: its sections and comments, which of them are questions for the bot, and whether it may edit.

Pure functions over wikitext. A comment ends with a signature (a link to a user's page, then a time in UTC), as
MediaWiki's ``~~~~`` leaves it; text behind the last signature of a section is unsigned and is nobody's.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MARKER = "kbnav:"
_MARK = re.compile(rf"<!--\s*{MARKER}([0-9a-f]{{16}})\s*-->")
_HEADING = re.compile(r"^(={1,2})(?!=)(.*?)(?<!=)\1[ \t]*$", re.MULTILINE)
_ANY_HEADING = re.compile(r"^={1,6}[^=\n][^\n]*=[ \t]*$", re.MULTILINE)
_TAG = re.compile(r"</?(?:span|small|big|font|b|i|u|s|sup|sub|br)\b[^<>]{0,500}>", re.IGNORECASE)
_BOX = re.compile(
    r"\{\{\s*(?:template:)?(?P<word>atop|hat|cot|abot|hab|cob|archive(?:top|bottom)|(?!(?:skip|back|go) to )"
    r"[a-z][a-z -]{1,24}[ -](?:top|bottom)|closed|resolved|section resolved|erledigt|discussion closed)\s*(?=[|}])",
    re.IGNORECASE,
)
_DIV = re.compile(r"<(?P<end>/?)div\b(?P<how>[^<>]{0,500})>", re.IGNORECASE)
_CLOSED_DIV = re.compile(r"\b(?:mw-archivedtalk|xfd-closed|boilerplate)\b")
_ENDS = ("bottom", "abot", "hab", "cob")
_CLOSES = ("closed", "resolved", "section resolved", "erledigt", "discussion closed")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_ZONES = r"ت ع م|يو تى سى|\s?يو\.ٽي\.سي|ইউটিসি|ইউ\.টি\.চি\.|नेपालको प्रमाणिक समय|යූටීසී"
"""Names of UTC in signatures of wikis in Arabic, Egyptian Arabic, Sindhi, Bengali, Assamese, Nepali and Sinhala."""
_TIME = re.compile(
    rf"(?<!\d)\d{{1,2}}[:.h]\d{{2}}(?:min)?\b[^\n\[\]]{{0,60}}?\((?:[A-Z]{{2,5}}|[+-]\d{{2}}(?::?\d{{2}})?|{_ZONES})\)"
)
_LINK = re.compile(r"\[\[([^\[\]|\n]{1,300})(?:\|[^\[\]\n]{0,300})?\]\]")
_TEMPLATE = re.compile(r"\{\{([^{}|]{1,100})(?:\|([^{}]{0,5000}))?\}\}")
_OPENING = re.compile(
    r"<(!--|(?:includeonly|nowiki|pre|syntaxhighlight|source|math)\b(?=[^<>]{0,500}(?<!/)>))", re.IGNORECASE
)
_TO_THE_END = ("!--", "includeonly")
"""What hides all that follows where it is not closed; of other tags the opening alone is plain text then."""
_UNSIGNED = re.compile(r"\{\{\s*(?:unsigned|unsigned ?ip|nicht signiert)\s*\|([^{}|\n]{1,100})\|", re.IGNORECASE)
_LEFT_OVER = re.compile(
    r"<ref\b[^<>]{0,500}>[^<]{0,2000}</ref>|<ref\b[^<>]{0,500}/>|<small\b[^<>]{0,500}>\W*(?:&nbsp;)?Preceding\b.{0,200}\Z"
    r"|\[\[[^\[\]|\n]{1,100}/[0-9A-Fa-f.:]{3,45}(?:\|[^\[\]\n]{0,100})?\]\][\s(]*\Z"
)
"""Footnotes, and what stands in front of the user's link in a signature that a bot or nobody's account made."""
_SIGNATURE = 500
"""Characters before a time in which the signer's name stands; MediaWiki keeps signatures shorter."""
_INDENT = re.compile(r"^[:*#]+")
_OUTDENT = re.compile(r"\{\{\s*(?:od|outdent|undent|unindent)\d?\s*[|}]", re.IGNORECASE)
_NO_WORD = re.compile(r"(?=\w)")
_JOINTS = " ,:;-–—\n"
_MOST = 5
"""Questions in one comment; what a sixth mention asks is not read."""


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

    def linked(self, text: str, start: int = 0, end: int | None = None) -> Iterator[tuple[str, int, int]]:
        """Users whose pages are linked, each with start and end of the link."""
        for link in _LINK.finditer(text, start, len(text) if end is None else end):
            if user := self.user_of(link[1].strip().removeprefix(":")):
                yield user, link.start(), link.end()


@dataclass(frozen=True)
class Comment:
    """One signed comment; ``text`` is without signature and indentation, ``start`` and ``end`` are offsets.

    ``indent`` holds the list marks of its first or its last line, whichever has fewer.

    ``marker`` is the id of the question that it answers, where the bot wrote it. ``mentions`` are the users linked.
    """

    author: str
    time: str
    text: str
    indent: str
    start: int
    end: int
    marker: str = ""
    mentions: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    """Users addressed in the text, each with start and end of the templates, or else of the links, in their order."""


@dataclass(frozen=True)
class Section:
    """A section of the first or second level with its comments, or the lead, which has no heading."""

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
    """The sections of a page in order, the lead first where there is one."""
    seen = _blanked(page)
    heads = [head for head in _HEADING.finditer(seen) if head[2].strip()]
    ends = [*(head.start() for head in heads[1:]), len(page)]
    lead = heads[0].start() if heads else len(page)
    if lead:
        yield Section("", 0, lead, tuple(_comments(page, seen, 0, lead, names)))
    for head, end in zip(heads, ends, strict=False):  # a page without sections has an end all the same
        heading = page[head.start(2) : head.end(2)].strip()
        yield Section(heading, head.start(), end, tuple(_comments(page, seen, head.end(), end, names)))


def _hidden(page: str) -> Iterator[tuple[int, int, bool]]:
    """Start and end of what MediaWiki does not read as talk, and whether it is closed; in time linear in the page."""
    never_closed: set[str] = set()
    at = 0
    while opening := _OPENING.search(page, at):
        name = opening[1].lower()
        at = opening.end()
        if name in never_closed:
            continue
        closing = re.compile("-->" if name == "!--" else rf"</{name}\s{{0,9}}>", re.IGNORECASE).search(page, at)
        if closing:
            at = closing.end()
            yield opening.start(), at, True
        elif name in _TO_THE_END:
            yield opening.start(), len(page), False
            return
        else:
            never_closed.add(name)


def _blanked(page: str) -> str:
    """The page with what is not parsed replaced by as many dots, and comments by blanks; line breaks stay."""
    parts, at = [], 0
    for start, end, _ in _hidden(page):
        blank = " " if page.startswith("<!--", start) else "."
        parts += [page[at:start], re.sub(r"[^\n]", blank, page[start:end])]
        at = end
    return "".join([*parts, page[at:]])


def _comments(page: str, seen: str, start: int, end: int, names: Names) -> Iterator[Comment]:
    begin = start
    for time in _TIME.finditer(seen, start, end):
        signature = _signature(seen, begin, time.start(), names)
        if signature is None:
            continue
        author, cut = signature
        raw = page[begin:cut]
        stop = page.find("\n", time.end(), end) + 1 or end
        mark = _MARK.search(raw)
        written = _COMMENT.sub("", raw)
        text = _words(_ANY_HEADING.sub("", written))
        yield Comment(
            author=author,
            time=time[0],
            text=text,
            indent=_indent(written),
            start=begin,
            end=stop,
            marker=mark[1] if mark else "",
            mentions=_mentions(text, names),
        )
        begin = stop


def _words(text: str) -> str:
    lines = text.strip().rstrip("-–— \t").split("\n")
    return "\n".join(_INDENT.sub("", line).strip() for line in lines).strip()


def _signature(text: str, start: int, end: int, names: Names) -> tuple[str, int] | None:
    """Who signed before a time: the last user linked in its line, and where the run of links to that user begins."""
    line = max(start, end - _SIGNATURE, text.rfind("\n", start, end) + 1)
    users = [(user, at) for user, at, _ in names.linked(text, line, end)]
    users = users or [(normal_user(one[1]), one.start()) for one in _UNSIGNED.finditer(text, line, end)]
    if not users:
        return None
    author, first = users[-1]
    for user, at in reversed(users):
        if user != author or first - at > 200:
            break
        first = at
    return author, first


def _indent(written: str) -> str:
    lines = [line for line in written.split("\n") if line.strip() and not _ANY_HEADING.match(line)] or [""]
    marks = [found[0] if (found := _INDENT.match(line)) else "" for line in (lines[0], lines[-1])]
    return min(marks, key=len)


def _mentions(text: str, names: Names) -> dict[str, list[tuple[int, int]]]:
    seen = _blanked(text)
    links, pings = defaultdict[str, list[tuple[int, int]]](list), defaultdict[str, list[tuple[int, int]]](list)
    for user, start, end in names.linked(seen):
        links[user].append((start, end))
    for name, values, place in _templates(seen):
        for user in {normal_user(value) for key, value in values if key.isdecimal() and value and name in _PINGS}:
            pings[user].append(place)
    return links | pings


_PINGS = ("ping", "reply to", "re", "@", "u", "user link", "mention", "reply", "rto", "yo", "notif")


def _asked_of(text: str, user: str, places: Sequence[tuple[int, int]]) -> list[str]:
    """What is asked behind each mention, or before it: one question unless several have a question mark."""
    ends, starts = [0, *(end for _, end in places)], [*(start for start, _ in places), len(text)]
    before, *behind = (text[end:start] for end, start in zip(ends, starts, strict=True))
    if len(places) == 1 and before[-2:-1].isalpha() and behind[0].lstrip(" ")[:1].islower():  # it floats in a sentence
        return [f"{before}{user}{behind[0]}"]
    if any(map(str.isalnum, behind[-1])):
        whole = text[places[0][1] :]
    else:
        marks = [_NO_WORD.split(part, maxsplit=1)[0] for part in behind]
        parts = [before, *(part[len(mark) :] for part, mark in zip(behind, marks, strict=True))]
        behind = [f"{part.rstrip(_JOINTS)}{mark.strip()}" for part, mark in zip(parts, marks, strict=False)]
        whole = f"{text[: places[-1][0]].rstrip(_JOINTS)}{marks[-1].strip()}"
    several = [part for part in behind if _asks(part)][:_MOST]
    return several if len(several) > 1 else [whole]


def _templates(seen: str) -> Iterator[tuple[str, list[tuple[str, str]], tuple[int, int]]]:
    """Name in lower case, parameters (unnamed ones counted from 1) and place of each template without braces in it.

    mwparserfromhell is not used: it takes minutes for a page of unclosed braces, which anybody may write.
    """
    for found in _TEMPLATE.finditer(seen):
        values = []
        for number, part in enumerate((found[2] or "").split("|") if found[2] else (), 1):
            key, equals, value = part.partition("=")
            values.append((key.strip().lower(), value.strip()) if equals else (str(number), part.strip()))
        yield _plain(found[1]).removeprefix("template:").strip(), values, found.span()


def questions(title: str, page: str, *, bot: str, own: bool, names: Names = Names()) -> Iterator[Question]:
    """What is asked of the bot on a page and has no reply of the bot yet, in the page's order.

    Args:
        title: of the page.
        page: its wikitext.
        bot: the bot's user name.
        own: whether every new section is a question (the bot's talk page, a configured page); elsewhere only what
            mentions the bot is one.
        names: of the wiki.

    On its own pages the first comment of a section is a question, and later ones that mention the bot or follow one of
    its replies with a question mark; a question is the comment's text, or the text behind each mention, or, where there
    is none, the text before it. In a lead only what mentions the bot is one; what stands in a closed thread is none.
    """
    me = normal_user(bot)
    for section in sections(page, names):
        closed = _closed(_blanked(page[section.start : section.end]))
        answered = [comment.marker for comment in section.comments if comment.marker]
        for place, comment in enumerate(section.comments):
            if comment.author == me or comment.marker:
                continue
            if any(start < comment.end - section.start <= end for start, end in closed):
                continue
            before = section.comments[place - 1] if place else None
            follows = before is not None and before.author == me
            mentions = comment.mentions.get(me)
            if not mentions and not (own and section.heading and (place == 0 or (follows and _asks(comment.text)))):
                continue
            earlier = tuple(c.marker for c in section.comments[:place] if c.marker)
            asked = _asked_of(comment.text, me, mentions) if mentions else [comment.text]
            for number, words in zip(question_ids(comment), asked, strict=False):
                text = plain_question(words) or comment.text or (section.heading if not mentions else "")
                if text.strip() and number not in answered:
                    yield Question(
                        number, title, section.heading, comment.author, comment.time, text, len(comment.indent), earlier
                    )


def plain_question(text: str) -> str:
    """A question's words: links and templates of entities as what they name, other templates and styles left out."""
    text = re.sub(
        r"\{\{\s*([QPqp])\s*\|\s*([QPqp]?)([1-9]\d*)[^{}]*\}\}",
        lambda found: (found[2] or found[1]).upper() + found[3],
        text,
    )
    text = _LINK.sub(_named, _TEMPLATE.sub("", _LEFT_OVER.sub("", text)))
    lines = [" ".join(line.split()) for line in _TAG.sub("", text).replace("'''", "").replace("''", "").split("\n")]
    return "\n".join(line for line in lines if line).lstrip(_JOINTS).rstrip(" (-–—\n")


def _named(link: re.Match[str]) -> str:
    target, _, shown = link[0][2:-2].partition("|")
    return shown or re.sub(r"^:?(?:[a-z][a-z-]{1,11}:)*", "", target.strip()).removeprefix(":")


def _closed(section: str) -> list[tuple[int, int]]:
    """Start and end of what is closed in a section: its archive boxes, and each sub-section (or all) marked so."""
    heads = [(head.start(), len(head[0]) - len(head[0].lstrip("="))) for head in _ANY_HEADING.finditer(section)]
    found, opened, divs = list[tuple[int, int]](), list[int](), list[int]()
    for box in _BOX.finditer(section):
        at, word = box.start(), box["word"].lower()
        if word in _CLOSES:
            start, level = max((head for head in heads if head[0] < at), default=(0, 0))
            found.append((start, min((s for s, other in heads if s > start and other <= level), default=len(section))))
        elif not word.endswith(_ENDS):
            opened.append(at)
        elif opened:
            found.append((opened.pop(), at))
    for div in _DIV.finditer(section):
        if not div["end"]:
            divs.append(div.start() if _CLOSED_DIV.search(div["how"]) else -1)
        elif divs and (at := divs.pop()) >= 0:
            found.append((at, div.start()))
    return found + [(at, len(section)) for at in [*opened, *divs] if at >= 0]


def _asks(text: str) -> bool:
    return any(mark in text for mark in "?？؟;՞፧⸮")


def question_ids(comment: Comment) -> list[str]:
    """Ids, 16 hexadecimal digits by signer, time and words, of a comment's question and of further mentions."""
    parts = "\0".join((comment.author, comment.time, " ".join(comment.text.split())))
    most = min(max(map(len, comment.mentions.values()), default=1), _MOST)
    numbered = [parts, *(f"{parts}\0{number}" for number in range(1, most))]
    return [hashlib.sha256(one.encode("utf-8", "replace")).hexdigest()[:16] for one in numbered]


def comment_ids(page: str, names: Names = Names()) -> set[str]:
    """Ids of all comments in a page's sections, whether anything is asked in them or not."""
    return {one for section in sections(page, names) for comment in section.comments for one in question_ids(comment)}


def added_by(base: str, edits: Iterable[tuple[str, str]], names: Names = Names()) -> dict[str, str]:
    """Who put each comment on a page, by the comments' ids: those of the text ``base`` were there before.

    ``edits`` are users and the texts they left, in the order of the edits. What is taken away and put back is its first
    author's.
    """
    known, found = comment_ids(base, names), dict[str, str]()
    for user, text in edits:
        there = comment_ids(text, names)
        found |= dict.fromkeys(there - known, user)
        known |= there
    return found


def refusal(question: Question, writer: str, unwanted: Collection[str], editors: Collection[str]) -> str:
    """Why a question gets no reply, whatever the quotas say; empty where it may get one.

    Args:
        question: as it stands on its page.
        writer: who put it there; empty where the history that was read does not tell.
        unwanted: bots and blocked users; neither signer nor writer may be one.
        editors: of the page; where the writer is not known, the signer must be one.
    """
    if named := sorted({question.author, writer} & set(unwanted)):
        return f"{named[0]} is a bot, or blocked"
    if not writer and question.author not in editors:
        return f"signed by {question.author}, who has not edited the page"
    return ""


def with_reply(page: str, question: Question, reply: str, names: Names = Names()) -> str | None:
    """The page with a reply behind those that its question has already; None where the question is no longer there.

    Each line of the reply is indented as the question's comment and once more. Those replies are the comments and
    indented lines behind it that are deeper than it, up to the next heading. A page that holds the question's marker is
    given back as it is: it has been answered. Where something that is never closed would hide the reply, it goes before
    that.
    """
    if question.id in markers(page):
        return page
    for section in sections(page, names):
        for place, comment in enumerate(section.comments):
            if question.id in question_ids(comment):
                at = _end_of_replies(page, section, place)
                unclosed = [start for start, _, closed in _hidden(page) if not closed and start >= comment.start]
                at = min([at, *unclosed])
                body, rest = page[:at].rstrip("\n"), page[at:].lstrip("\n")
                lines = "".join(f"{comment.indent}:{line}\n" for line in reply.splitlines())
                gap = "\n" if rest and (rest[0] in "=<{" or page[at:] != rest) else ""
                return f"{body}\n{lines}{gap}{rest}"
    return None


def _end_of_replies(page: str, section: Section, place: int) -> int:
    """The offset behind a comment and all that replies to it."""
    seen, asked = _blanked(page), section.comments[place]
    heading = _ANY_HEADING.search(seen, asked.end, section.end)
    limit, at = heading.start() if heading else section.end, asked.end
    depth = len(asked.indent)
    for later in section.comments[place + 1 :]:
        outdented = not depth and _OUTDENT.match(later.text)
        if later.end > limit or _BOX.search(seen, later.start, later.end):
            break
        if len(later.indent) <= depth and not outdented:
            break
        at = later.end
    while at < limit:
        line = page[at:limit].partition("\n")[0] + "\n"
        indent = _INDENT.match(line)
        if indent is None or len(indent[0]) <= depth:
            return at
        at = min(limit, at + len(line))
    return at


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
    me = normal_user(bot)
    for name, values, _ in _templates(_blanked(page)):
        if name == "nobots" and not {"allow", "deny", "optout"} & {key for key, _ in values}:
            return False
        if name in ("bots", "nobots"):
            named = {key: {_listed(item) for item in value.split(",") if item.strip()} for key, value in values}
            if named.get("allow") and not ({me, "all"} & named["allow"]):
                return False
            if {me, "all"} & named.get("deny", set()):
                return False
            if kind and {"all", normal_user(kind)} & named.get("optout", set()):
                return False
    return True


def _listed(item: str) -> str:
    plain = item.strip().lower()
    return plain if plain in ("all", "none") else normal_user(item)
