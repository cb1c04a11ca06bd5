"""Secrets of a command, which programs expect at certain places: `zip -P x`, `A=x cmd`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import NamedTuple

from engine.scripts.secret_names import is_certain_name, is_secret_name, is_switch

_TOOL = re.compile(
    r"(?:(?P<p>sshpass|mongo\w*|twine|cqlsh|ncftp\w+|rdesktop|openfortivpn)"
    r"|(?P<p_>(?:mysql|mariadb)[\w-]*|7z\w*|(?:un)?rar)|(?P<a>redis-cli)|(?P<P>(?:un)?zip|sqlcmd|bcp"
    r"|ipmitool|mosquitto_\w+)|(?P<w>ldap\w+)|(?P<k>openssl)|(?P<AXc>snmp\w+)|(?P<NP>ssh-keygen)"
    r"|(?P<none>curl|wget|https?|smbclient|docker|podman|nerdctl|helm|oc|az|aws|gh|wandb|vault|setenv"
    r"|lftp|htpasswd|comet|swanlab|hf|huggingface-cli|mc|bw|ngrok|sqlplus|rclone|poetry|npm|heroku))"
)
"""Programs that log in, also where a text mentions them; a group is called like the options whose
value is a password whatever it looks like, with `_` if it must stand in the same word."""

_STARTS = re.compile(
    r"(?:\S*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|(?:ba|z|da|fi)?sh)|\S+\.(?:py|sh)|\./\S+"
)
"""Programs that may stand behind another one, such as `docker run x python`."""

_OWN = re.compile(
    r"(?:\S*/)?(?:pypy\d?|ipython|jupyter\S*|papermill|uvx?|conda|\w*mamba|pixi|pip\d?|make|cmake"
    r"|git|ssh|scp|rsync|tar|g?un?zip|mpi(?:run|exec)|srun|sbatch|nvidia-smi|numactl|taskset|nice|tee"
    r"|timeout|stdbuf|xargs|cat|echo|printf|cd|ls|cp|mv|rm|ln|mkdir|touch|head|tail|grep|sed|awk|find"
    r"|sort|wc|sleep|date|test|kill|ps|df|du|watch|tmux|screen|module|source|set|ulimit|chmod|if|then"
    r"|else|for|while|do|ray)"
    r"|\S*(?:train|tune|fit|eval|bench|yolo|fairseq)\S*|\S+\.\w|\.\S+|\S*/(?!\S*bin/)\S+"
)
"""Programs whose options are shown, but for what names and shapes say: those that train, the user's
own, and those of every shell. Of all others, a value is shown only if it looks like none."""

_BEFORE = ("env", "export", "sudo", "nohup", "exec", "time", "command", "declare")
"""Words with variables or a program behind them."""

_VERB = re.compile(
    r"(?:\w+-)?(?:login|auth|authtoken|unlock|token|secrets?|passwd|obscure|alias|configure|config"
    r"|credentials?|config:set)|\w*passw?\w*"
)
_SHOWN = re.compile(
    r"[/~.$-].*|\w+://\S*|[a-z0-9_.:@-]*(?:/[a-z0-9_.:@*-]*)+|(?!\d{9})[\d.,:eE+%x*-]+|[a-z][a-z.-]*\d{0,3}|[A-Z_]+|[\w.-]+\.[a-z]\w{0,4}|.{0,3}",
    re.DOTALL,
)
"""What a program that is not the user's may have as a value: a path, a number, a word, a file."""

_ASSIGNED = re.compile(r"(?:ALL,)?(?P<name>[A-Za-z_]\w*)=(?P<value>[^{\[].*)", re.DOTALL)
_GIVES_VARIABLE = re.compile(
    r"(?:--(?:env|export|build-arg)=(?:ALL,)?)?(?P<name>[A-Z_][A-Z0-9_]*)=(?P<value>.+)", re.DOTALL
)
_VARIABLES = ("e", "x", "env", "export", "build-arg")
"""Options with a variable for what is started."""

_HEADER = re.compile(r"(?P<flag>-H|--header=)?(?P<name>[A-Za-z][\w-]*):\s*(?P<value>.+)", re.DOTALL)
_OPEN_HEADER = re.compile(
    r"accept.*|content-.*|user-agent|range|host|cache-control|connection|if-.*|origin|referer|date",
    re.IGNORECASE,
)
_TOKEN = re.compile(
    r"(?P<next>[|;&\n]+|\$\(|(?<!\S)\()|(?:[^\s\"'|;&\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*')+|\S",
    re.DOTALL,
)

_OPENED = re.compile(r"([A-Za-z_][\w.-]*)[\"']?[:=]$")
_LONGEST_NAME = 100
_BARE_NAME = re.compile(r"[A-Za-z][\w-]*")
"""`setenv HF_TOKEN x`, `remote modify password x`."""

_USERS = ("u", "U", "user", "login", "userpwd", "proxy-user")
"""Options whose value is a user, perhaps with a password."""

_PAIR = re.compile(r"(?:-[uU])?(?!\d+:\d+$)[^\s:=/%,-][^\s:=/%,]*(?P<mark>[:%,])(?P<value>\S+)")
_WITH_SLASH = re.compile(r"[\w.-]+/([^\s/@]+)@\S+")
"""`sqlplus ada/x@db`."""

_FLAG = re.compile(r"[+-]*[A-Za-z_][\w.-]*")

_OPEN = re.compile(r"[/~.$]\S*|(?!\d{9})[\d.,:eE+%x*-]+")
"""What a variable may have as its value: a path, a number."""

_PORT = re.compile(r"\d{1,5}|[\d.]+(?::\d+)+|[/~.$]\S*")
"""What `-p` may mean where it is no password."""

_CODE_RUNNER = re.compile(r"(?:\S*/)?(?:python[\d.]*|perl|ruby|node)")
_TOOL_IN_TEXT = re.compile(
    rf"(?<![\w.-])(?:(?P<before>env|export)\s+(?=\w+=)|{_TOOL.pattern}(?=\s+\S))"
)
_LONGEST_COMMAND = 2000

MayStore = Callable[[str, str], bool]


class Span(NamedTuple):
    begin: int
    end: int
    name: str


class CommandReader:
    """Reads a command word by word: which part of a word is a secret, its place decides."""

    def __init__(self, may_store: MayStore, *, begins: bool = True, in_text: bool = False) -> None:
        """`begins`: variables or a program come first; else a program counts if it is known.
        `in_text`: the words are from a text, in which names are looked for anyway."""
        self.option = ""
        """The name of the option or key whose value comes next; else empty."""

        self._may_store = may_store
        self._counts = begins
        self._in_text = in_text
        self.end()

    def end(self) -> None:
        """Begin the next command, as behind `;` or `|`."""
        self._begins = self._counts
        self._is_foreign = self._logs_in = self._is_tight = False
        self._program = self._letters = self.option = self._was = ""

    def secret_in(self, word: str) -> list[Span]:
        """Return the secret that the next word has by its place, if any."""
        if self._begins and not word.startswith("-"):
            return self._beginning(word)
        if self.option in ("", "m") and (
            _TOOL.fullmatch(_basename(word)) or _STARTS.fullmatch(word)
        ):
            self._enter(word)
        span = self._by_name(word) or (self._of_foreign(word) if self._is_foreign else None)
        self._was, self.option = self.option, self._option_in(word)
        self._logs_in |= not self._was and bool(_VERB.fullmatch(word))
        return [span] if span else []

    def inner(self, text: str) -> list[Span]:
        """Return the secrets in the word that was read last, if it is a command of its own."""
        is_code = self._was in ("c", "e") and _CODE_RUNNER.fullmatch(self._program)
        if is_code or text[:1] in "{[" or not re.search(r"\s", text):
            return []
        return _shell_spans(text, CommandReader(self._may_store, in_text=True))

    def _beginning(self, word: str) -> list[Span]:
        assigned = _ASSIGNED.fullmatch(word)
        if assigned and (assigned["name"].isupper() or self._program in _BEFORE):
            return self._variable(assigned)
        if word in _BEFORE:
            self._program = word
        else:
            self._begins = False
            self._enter(word)
            self.option = self._option_in(word)
        return []

    def _enter(self, program: str) -> None:
        tool = _TOOL.fullmatch(_basename(program))
        group = (tool and tool.lastgroup) or ""
        self._letters = "" if group == "none" else group.rstrip("_")
        self._is_tight = group.endswith("_")
        self._is_foreign = bool(tool) or not (_STARTS.fullmatch(program) or _OWN.fullmatch(program))
        self._logs_in = self._is_foreign and bool(_VERB.fullmatch(program))
        self._program = program

    def _variable(self, assigned: re.Match[str]) -> list[Span]:
        name, value = assigned["name"], assigned["value"]
        plain = value.strip("\"'")
        is_open = self._may_store(name, plain) or is_switch(plain) or _OPEN.fullmatch(plain)
        if is_open and not is_secret_name(name, plain):
            return []
        return [Span(*assigned.span("value"), name)]

    def _by_name(self, word: str) -> Span | None:
        """Return the secret that a name says to be one, in the command of any program."""
        option = self.option
        if option and not word.startswith("-") and is_secret_name(option, word.rstrip(",)}]")):
            return Span(0, len(word), option)
        name, equals, value = word.partition("=")
        if (
            not self._in_text
            and equals
            and value
            and _FLAG.fullmatch(name)
            and is_secret_name(name, value)
        ):
            return Span(len(name) + 1, len(word), name)
        if (header := _HEADER.fullmatch(word)) and (header["flag"] or option in ("H", "header")):
            is_open = _OPEN_HEADER.fullmatch(header["name"])
            return None if is_open else Span(*header.span("value"), header["name"])
        given = _GIVES_VARIABLE.fullmatch(word)
        if given and (word[0] == "-" or option in _VARIABLES):
            return next(iter(self._variable(given)), None)
        user = _PAIR.fullmatch(word) if option in _USERS or word[:2] in ("-u", "-U") else None
        if user and (self._is_foreign or (user["mark"] == ":" and word[0] != "-")):
            return Span(*user.span("value"), "password")
        return None

    def _of_foreign(self, word: str) -> Span | None:
        """Return what a program that is not the user's has as a secret, or may have."""
        if word.startswith("-"):
            return self._in_option(word)
        option, whole = self.option, Span(0, len(word), self.option or "secret")
        is_shown = bool(_SHOWN.fullmatch(word.rstrip(",;:.)")))
        if (pair := _WITH_SLASH.fullmatch(word)) and not option:
            return Span(*pair.span(1), "password")
        if len(option) == 1 and option != "H":
            is_password = option in self._letters or (option == "k" and self._logs_in)
            is_password |= option == "p" and not _PORT.fullmatch(word)
            return whole if not is_shown or (is_password and not self._is_tight) else None
        if not self._logs_in or (not self._counts and not re.search(r"\d", word)):
            return None
        assigned = _ASSIGNED.fullmatch(word)
        if assigned and not option:
            value = assigned["value"]
            return (
                None if _SHOWN.fullmatch(value) else Span(*assigned.span("value"), assigned["name"])
            )
        return None if is_shown else whole

    def _in_option(self, word: str) -> Span | None:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            is_open = not (equals and self._logs_in and not _SHOWN.fullmatch(value))
            return None if is_open else Span(len(name) + 1, len(word), name)
        if len(word) > 2 and word[1] in self._letters:
            return Span(2 + (word[2] == "="), len(word), "password")
        if self._is_tight and word.startswith("-hp"):
            return Span(3, len(word), "password")
        is_open = len(word) < 8 or bool(equals or _SHOWN.fullmatch(word[2:]))
        return None if is_open else Span(2, len(word), word[1])

    def _option_in(self, word: str) -> str:
        """Return the name of the option or key whose value comes next; else an empty text."""
        if word.startswith("-"):
            name = "" if re.search(r"[=$]|^-\w\d", word) else word.lstrip("+-")
            is_bundle = (
                self._is_foreign and word[1:2] != "-" and name[:6].isalpha() and len(name) < 7
            )
            return name[-1] if is_bundle and name[-1] in self._letters + "uU" else name
        opened = None if self._in_text else _OPENED.search(word[-_LONGEST_NAME:])
        if opened:  # `{token:` and a value of its own
            return opened[1]
        last = re.split("[/:.]", word)[-1] if self._is_foreign else word
        is_name = not self.option and len(word) < _LONGEST_NAME and _BARE_NAME.fullmatch(last)
        is_variable = "_" in word and word.isupper()
        return last if is_name and (is_variable or is_certain_name(last)) else ""


def _basename(word: str) -> str:
    return word.rpartition("/")[2]


def spans_of_tools(text: str, may_store: MayStore) -> list[Span]:
    """Return the secrets of commands that a text of any kind mentions."""
    found: list[Span] = []
    end = 0
    for match in _TOOL_IN_TEXT.finditer(text):
        if match.start() >= end:
            most = match.end() + _LONGEST_COMMAND
            line = text.find("\n", match.end(), most)
            end = line if line >= 0 else most
            reader = CommandReader(may_store, begins=bool(match["before"]), in_text=True)
            found += _shell_spans(text, reader, match.start(), end)
    return found


def _shell_spans(
    text: str, reader: CommandReader, begin: int = 0, end: int = sys.maxsize
) -> list[Span]:
    """Return the secrets of commands in a text, read as a shell reads it."""
    found = []
    for match in _TOKEN.finditer(text, begin, end):
        if match["next"]:
            reader.end()
            continue
        word = match[0]
        is_quoted = len(word) > 1 and word[0] in "\"'" and word[-1] == word[0]
        place = match.start() + is_quoted
        for span in reader.secret_in(word[1:-1] if is_quoted else word):
            found.append(Span(place + span.begin, place + span.end, span.name))
    return found
