"""Hostile programs, by what they try. Each is the body of ``score``; what a body can reach it tells by ``debug``.

A program has succeeded if it gets hold of what its sandbox keeps from it (``CANARY`` in a file, in the environment or
behind a socket, files of the machine), if it goes on after its limits, or if it brings down the process that runs it.
"""

import textwrap
from dataclasses import dataclass

CANARY = "canary-7f3a"
"""Stands in a file, in an environment variable and behind a port; no outcome may have it."""
TIME = ("time",)
MEMORY = ("memory", "crash", "time")
RECURSION = ("recursion", "memory", "crash", "time")
SPENT = ("time", "memory", "crash", "raised", "recursion", "output", "")
"""Any limit, or the program's own end: an interpreter may know a short way."""


@dataclass(frozen=True)
class Attack:
    name: str
    body: str
    ends: tuple[str, ...] | None = None
    """Kinds of failure, ``""`` for none; None: any end will do, if nothing was got hold of."""

    @property
    def source(self) -> str:
        body = textwrap.indent(textwrap.dedent(self.body).strip("\n"), "    ")
        return f"def score(query, candidates):\n{body}\n    return {{node: i for i, node in enumerate(candidates)}}\n"


def _told(expression: str, *before: str) -> str:
    """Tell what an expression gives."""
    return "\n".join([*before, f"debug('GOT', {expression})"])


LOOPS = [
    Attack("endless loop", "while True: pass", TIME),
    Attack(
        "endless loop that catches all",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        TIME,
    ),
    Attack("endless loop in finally", "try:\n    1 / 0\nfinally:\n    while True: pass", TIME),
    Attack("long range", "sum(i for i in range(10**12))", ("time", "memory")),
    Attack("endless count", "import itertools\nfor i in itertools.count(): pass", SPENT),
    Attack("endless cycle", "import itertools\nlist(itertools.cycle([1]))", SPENT),
    Attack("large product", "import itertools\nsum(1 for _ in itertools.product(range(1000), repeat=5))", SPENT),
    Attack("endless iterator by two arguments", "list(iter(int, 1))", SPENT),
    Attack("slow sort", "x = [0]\nfor i in x: x.append(sum(range(1000)))", MEMORY),
    Attack("sort by a key that never ends", "def f(x):\n    while True: pass\nsorted(candidates, key=f)", TIME),
    Attack(
        "comparison that never ends",
        "class A:\n    def __lt__(self, o):\n        while True: pass\nmax(A(), A())",
        ("time", "raised"),
    ),
    Attack("sleep", "import time\nwhile True: time.sleep(1000)", ("time", "calls", "raised")),
    Attack("busy conversion", "while True: str(7**20000)", ("time", "raised")),
]
MEMORIES = [
    Attack("tower of powers", "9**9**9", SPENT),
    Attack("shift", "1 << 10**12", (*MEMORY, "raised")),
    Attack("factorial", "import math\nmath.factorial(10**8)", SPENT),
    Attack("giant string", "'a' * 10**10", MEMORY),
    Attack("giant list", "[0] * 10**10", MEMORY),
    Attack("giant tuple", "(1,) * 10**10", MEMORY),
    Attack("giant bytes", "bytes(10**10)", (*MEMORY, "raised")),
    Attack("doubling string", "x = 'ab'\nwhile True: x += x", MEMORY),
    Attack("growing list", "x = []\nwhile True: x.append('y' * 1000 + str(len(x)))", MEMORY),
    Attack("growing dict", "x = {}\nwhile True: x[len(x)] = [0] * 100", MEMORY),
    Attack("wide format", "'{:>9999999999}'.format(1)", SPENT),
    Attack("wide percent format", "'%9999999999d' % 1", SPENT),
    Attack("wide f-string", "w = 10**10\nf'{1:{w}}'", SPENT),
    Attack("join", "','.join(['x' * 10**6] * 10**6)", MEMORY),
    Attack("replace", "('a' * 10**6).replace('a', 'b' * 10**6)", MEMORY),
    Attack("centre", "'x'.center(10**11)", MEMORY),
    Attack("all of a range", "list(range(10**10))", MEMORY),
    Attack("set of a range", "set(range(10**9))", MEMORY),
    Attack(
        "catching the end of memory",
        "x = []\nwhile True:\n    try:\n        x.append([0] * 10**6)\n    except MemoryError: pass",
        MEMORY,
    ),
    Attack("nested lists", "x = []\nwhile True: x = [x, x]", MEMORY),
    Attack("split", "('a,' * 10**7).split(',')", (*MEMORY, "")),
]
REGEX = [
    Attack("nested repeats", "import re\nre.match('(a+)+$', 'a' * 60 + 'b')", SPENT),
    Attack("alternatives", "import re\nre.match('(a|aa)+$', 'a' * 80 + 'b')", SPENT),
    Attack("back-references", "import re\nre.match(r'(a*)*(a*)*\\1b', 'a' * 60)", SPENT),
    Attack("large repeats", "import re\nre.compile('((a{1000}){1000}){1000}')", SPENT),
    Attack("regex over a long text", "import re\nre.findall('(x+x+)+y', 'x' * 100000)", SPENT),
]
DEEP = [
    Attack("recursion", "def f(): return f()\nf()", RECURSION),
    Attack("recursion of two", "def f(): return g()\ndef g(): return f()\nf()", RECURSION),
    Attack(
        "recursion that catches its end",
        "def f():\n    try:\n        f()\n    except RecursionError:\n        f()\nf()",
        RECURSION,
    ),
    Attack(
        "recursion by repr",
        "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
        (*RECURSION, "raised", ""),
    ),
    Attack(
        "recursion by attributes",
        "class A:\n    def __getattr__(self, name): return getattr(self, name + 'x')\nA().y",
        (*RECURSION, "raised"),
    ),
    Attack(
        "recursion by equality",
        "class A:\n    def __eq__(self, other): return self == other\nA() == A()",
        (*RECURSION, ""),
    ),
    Attack("deep list shown", "x = []\nfor i in range(100000): x = [x]\nrepr(x)", SPENT),
    Attack("deep list compared", "x, y = [], []\nfor i in range(100000): x, y = [x], [y]\nx == y", SPENT),
    Attack(
        "deep list given away",
        "x = []\nfor i in range(100000): x = [x]\ndebug(x)\ntexts_of(x)",
        ("raised", "memory", "recursion", "crash"),
    ),
    Attack("deep JSON", "import json\njson.loads('[' * 100000)", ("raised", "recursion", "crash", "memory")),
    Attack("deep code", "eval('(' * 10000 + ')' * 10000)", ("program", "raised", "memory", "recursion", "crash")),
    Attack("chain of sums", "x = 1" + " + 1" * 5000, (*SPENT, "program")),
    Attack("short chain of sums", "x = 1" + " + 1" * 300, (*SPENT, "program")),
    Attack("chain of attributes", "x = query" + ".y" * 5000, (*SPENT, "program")),
    Attack("chain of calls", "x = query" + "()" * 5000, (*SPENT, "program")),
    Attack("chain of else", "if query == 1: pass\n" + "elif query == 2: pass\n" * 1000, (*SPENT, "program")),
    Attack("a list in itself", "x = []\nx.append(x)\ndebug(x)\ntexts_of(x)", ("raised", "recursion")),
]
OUTPUT = [
    Attack("flood of prints", "while True: print('x' * 1000)", ("output", "time", "memory")),
    Attack("flood of empty prints", "while True: print()", ("output", "time", "memory")),
    Attack("print of shared lists", "x = []\nfor i in range(60): x = [x, x]\nprint(x)", ("time", "memory", "crash")),
    Attack("one giant print", "print('x' * 10**6)", ("output", "memory", "crash")),
    Attack("flood of debug", "while True: debug('x' * 10000)", ("calls", "time")),
    Attack(
        "debug of shared lists",
        "x = []\nfor i in range(20): x = [x, x]\nwhile True: debug(x)",
        ("calls", "time", "crash", "memory"),
    ),
]
CALLS = [
    Attack("a million calls", "for i in range(10**6): intersect([])", ("calls",)),
    Attack(
        "a million calls that are caught",
        "while True:\n    try:\n        while True: intersect([])\n    except BaseException: pass",
        ("calls",),
    ),
    Attack(
        "calls of what is not there",
        "while True:\n    try:\n        texts_of(['nowhere'])\n    except LookupError: pass",
        ("calls",),
    ),
    Attack("giant arguments", "token_recall('x', ['y' * 10**6] * 100)", ("raised", "memory", "crash", "time")),
    Attack("many arguments", "texts_of(*range(100000))", ("raised", "memory", "time")),
    Attack("odd keywords", "texts_of(**{'__class__': 1, 'ids': candidates})", ("raised",)),
    Attack("a function as an argument", "texts_of([texts_of])", ("raised",)),
    Attack("shared strings", "x = ['y'] * 10000\nintersect([x] * 10000)", ("raised", "memory", "time", "crash")),
    Attack(
        "shared lists as arguments",
        "x = []\nfor i in range(18): x = [x, x]\nwhile True:\n    try: texts_of(x)\n    except ValueError: pass",
        ("calls", "time"),
    ),
    Attack("shared lists as scores", "x = []\nfor i in range(60): x = [x, x]\nreturn {query: x}", ("scores",)),
    Attack("long phrase", "fuzzy('ab' * 10**5, ['ba' * 10**5] * 20)", None),
    Attack("calls under a private name", "_measure(1)", ("raised", "program")),
]
ESCAPES = [
    Attack("password file", _told("open('/etc/passwd').read()")),
    Attack("a file of the machine", _told("open(query).read()")),
    Attack("by pathlib", _told("pathlib.Path(query).read_text()", "import pathlib")),
    Attack("by a file descriptor", _told("[os.read(i, 1000) for i in range(3, 16)]", "import os")),
    Attack("folders", _told("os.listdir('/root'), os.listdir('/home'), os.listdir('/work')", "import os")),
    Attack("all files", _told("[p for p in glob.glob('/**', recursive=True) if p in query]", "import glob")),
    Attack("environment", _told("dict(os.environ)", "import os")),
    Attack("environment by its process", _told("open('/proc/self/environ').read()")),
    Attack("environment of the parent", _told("[open(f'/proc/{i}/environ').read() for i in range(1, 5)]")),
    Attack("write a file", _told("open('/tmp/x', 'w').write('y')") + "\ndebug('canary-' + '7f3a')"),
    Attack("subprocess", _told("subprocess.check_output(['/bin/cat', query])", "import subprocess")),
    Attack("shell", _told("os.popen('cat ' + query).read()", "import os")),
    Attack("spawn", _told("os.posix_spawn('/bin/cat', ['cat', query], {})", "import os")),
    Attack("exec of another program", "import os\nos.execv('/usr/bin/env', ['env'])"),
    Attack(
        "socket", _told("socket.create_connection(('127.0.0.1', int(candidates[0])), 0.1).recv(100)", "import socket")
    ),
    Attack(
        "HTTP",
        _told(
            "urllib.request.urlopen('http://127.0.0.1:' + candidates[0], timeout=0.1).read()", "import urllib.request"
        ),
    ),
    Attack("names of the machine", _told("socket.getaddrinfo('localhost', 80)", "import socket") + "\nopen(query)"),
    Attack("C", _told("ctypes.CDLL(None).system(b'cat /etc/passwd >&1')", "import ctypes") + "\nopen(query)"),
    Attack("import by hand", _told("__import__('os').environ.copy()")),
    Attack("import by importlib", _told("importlib.import_module('os').environ.copy()", "import importlib")),
    Attack("another package", _told("kbnav.settings.model.Settings().model_dump()", "import kbnav.settings.model")),
    Attack("packages beside", _told("[os.listdir(p) for p in sys.path if 'site-packages' in p]", "import os, sys")),
    Attack("subclasses", _told("[c for c in ().__class__.__base__.__subclasses__() if 'kbnav' in c.__module__]")),
    Attack("globals of a function of the API", _told("texts_of.__globals__['api']")),
    Attack("closure of a function of the API", _told("texts_of.__closure__[0].cell_contents.settings")),
    Attack("owner of a function of the API", _told("texts_of.__self__._source")),
    Attack(
        "frames below", _told("[f for f in [sys._getframe(i).f_locals for i in range(9)] if 'gold' in f]", "import sys")
    ),
    Attack(
        "frames of an error",
        """
        try:
            1 / 0
        except Exception as error:
            frame = error.__traceback__.tb_frame
            while frame:
                debug([name for name in frame.f_locals if name in ("gold", "answers", "api")])
                frame = frame.f_back
        """,
    ),
    Attack("all objects", _told("[o for o in gc.get_objects() if 'kbnav' in type(o).__module__]", "import gc")),
    Attack("format of attributes", _told("'{0.__globals__}'.format(texts_of)")),
    Attack("the truth by name", _told("answers")),
    Attack("the truth by another name", _told("gold")),
    Attack("the truth in globals", _told("[k for k in globals() if 'gold' in k or 'answer' in k or 'truth' in k][0]")),
    Attack("code that is made", _told("eval(\"__import__('os').environ\")")),
    Attack("code object", _told("(lambda: 0).__code__.replace(co_code=b'\\x00' * 100)")),
    Attack(
        "pickle",
        _told("pickle.loads(b'cos\\nsystem\\n(S\"cat /etc/passwd\"\\ntR.')", "import pickle") + "\nopen(query)",
    ),
]
PROCESSES = [
    Attack("exit", "raise SystemExit(0)"),
    Attack("hard exit", "import os\nos._exit(0)"),
    Attack("kill itself", "import os\nos.kill(os.getpid(), 9)"),
    Attack("kill all", "import os\nos.kill(-1, 9)"),
    Attack("kill the parent", "import os\nos.kill(os.getppid(), 9)"),
    Attack(
        "fork bomb",
        """
        import os
        while True:
            try:
                os.fork()
            except OSError as error:
                raise RuntimeError(str(error))
        """,
        ("raised", "program"),
    ),
    Attack("fork that goes on", "import os\nif os.fork() == 0:\n    while True: pass", ("raised", "program")),
    Attack("threads", "import threading\nt = threading.Thread(target=print)\nt.start()", ("raised", "program")),
    Attack(
        "signals ignored",
        "import signal\nfor s in (15, 2, 24):\n    signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
        ("raised", "time", "program"),
    ),
    Attack("alarm", "import signal\nsignal.alarm(1)\nwhile True: pass", ("raised", "time", "program")),
    Attack(
        "limits raised",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nx = 'a' * 10**10",
        ("raised", "program"),
    ),
    Attack(
        "deep stack",
        "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n    def __repr__(self): return repr([self])\nrepr(A())",
        ("raised", "crash", "recursion", "program", "time", "memory", ""),
    ),
    Attack("memory files", "import os\nos.write(os.memfd_create('x'), b'y' * 10**6)", ("raised", "program")),
    Attack(
        "mapped memory",
        "import mmap\nx = [mmap.mmap(-1, 1 << 30) for _ in range(100)]",
        ("raised", "program", "memory"),
    ),
    Attack(
        "a large file", "with open('/tmp/x', 'wb') as f:\n    while True: f.write(b'x' * 10**6)", ("raised", "program")
    ),
    Attack("null byte", "import ctypes\nctypes.string_at(0)", ("raised", "crash", "program")),
]


ATTACKS = {
    "loops": LOOPS,
    "memory": MEMORIES,
    "regex": REGEX,
    "depth": DEEP,
    "output": OUTPUT,
    "calls": CALLS,
    "escapes": ESCAPES,
    "processes": PROCESSES,
}
