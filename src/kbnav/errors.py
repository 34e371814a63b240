"""Every exception kbnav raises on purpose, in one tree.

There are two kinds of error, and nothing in between::

    KbnavError
    ├── TellModel              becomes the observation of the step; the run goes on
    │   ├── BadArguments           a tool call that cannot be understood
    │   ├── UnknownId              an id that does not exist, was deleted, or is of the wrong kind
    │   ├── QuerySyntaxError       with line, column and what was expected
    │   ├── QueryRefused           an update, or a SERVICE that is not on the allow-list
    │   └── QueryTimeout           the service's or the mirror's time or memory limit
    └── StopRun                ends the run (the trajectory is saved first); ``exit_code`` is the CLI's
        ├── Stopped            a person, or a limit that they set, ended the run                         (3)
        ├── UsageError             wrong use: a missing file, an unknown name, an impossible option     (2)
        │   ├── DataError          a file that is corrupt or not what it should be, with its position   (2)
        │   │   └── DamagedKB      the files of a knowledge base that is open cannot be read            (2)
        │   ├── PromptTooLong      more than the model reads at once                                    (2)
        │   ├── NotOffered         a server has no such knowledge base, system, model or session        (2)
        │   ├── Busy               a session of a server is still at another question                   (2)
        │   └── LimitReached       a server does no more for now, or for this user                      (2)
        └── ServiceError           something outside failed and stayed failed                           (3)
            ├── CredentialsError   a missing or refused key, or a missing operator contact              (3)
            ├── Banned             the service has banned this client                                   (3)
            ├── NotAnswering       it failed again and again, and is left alone for a while             (3)
            ├── DatabaseAway       the database of a server's sessions takes nothing now                (3)
            ├── Overdue            it did not answer in the time that a server gives it                 (3)
            └── BadResponse        an answer that is not what the protocol promises                     (3)
"""

from __future__ import annotations


class KbnavError(Exception):
    """Root of the tree; its text is one line or a few that a person can act on."""


class TellModel(KbnavError):
    """The model can do something about it: the text becomes the observation."""


class BadArguments(TellModel):
    """A tool call with an unknown tool, unreadable arguments or arguments of the wrong type."""


class UnknownId(TellModel):
    """An id that the knowledge base does not have."""


class QuerySyntaxError(TellModel):
    """A query that does not parse; ``line`` and ``column`` count from 1, 0 where unknown."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class QueryRefused(TellModel):
    """A query that parses but may not run here."""


class QueryTimeout(TellModel):
    """A query stopped by a limit of time or memory."""


class StopRun(KbnavError):
    """Nothing the model does would help; the run ends and the caller hears of it."""

    exit_code = 3


class Stopped(StopRun):
    """A person asked for the run to end, or it reached a limit of time or money."""


class UsageError(StopRun):
    """The person asked for something that cannot be: a missing file, an unknown name."""

    exit_code = 2


class DataError(UsageError):
    """A file that is corrupt or not in the format it should be in."""


class DamagedKB(DataError):
    """What a knowledge base that is open reads from its files cannot be: they were changed, or broken."""


class PromptTooLong(UsageError):
    """A model was sent more than its endpoint lets it read at once."""


class NotOffered(UsageError):
    """What a server is asked for by name, and does not have."""


class Busy(UsageError):
    """A session is still at the question before."""


class LimitReached(UsageError):
    """A limit of a server on what it does at once, or for one user."""


class TooBusy(LimitReached):
    """More wait at a server than may; nobody's fault, and soon over."""


class ServiceError(StopRun):
    """A service that cannot be reached, or that keeps failing after retries."""


class CredentialsError(ServiceError):
    """A key or a contact that is missing or was refused; the text says what to set."""


class Banned(ServiceError):
    """The service has banned this client; going on would make it worse."""


class NotAnswering(ServiceError):
    """A knowledge base that is left alone for a while, because it failed again and again, or is out of service."""


class DatabaseAway(ServiceError):
    """The database of a server's sessions does not answer, is full or may not be written."""


class Overdue(ServiceError):
    """No answer in the time that a server gives to one request."""


class BadResponse(ServiceError):
    """An answer that breaks the protocol: HTML instead of JSON, a body that is cut off."""


FATAL = (CredentialsError, Banned)
"""Failures after which no other call of the same service can fare better."""
