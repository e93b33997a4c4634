"""The program `rtc`: where it is, and how it is run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, TypeAlias

from .errors import BY_CODE, RtcError

Edits: TypeAlias = Mapping[str, Any] | Sequence[str] | None
"""Edits of a spec or an experiment: `{"depthwise.depth": 20}`, or texts as on the command line, `["halt none"]`."""


def program() -> str:
    """The path of the program: the environment variable `RTC_PROGRAM`, or what the wheel has installed. The search path of the
    system is not asked: another version might lie there."""
    named = os.environ.get("RTC_PROGRAM")
    if named:
        return named
    name = "rtc" + (sysconfig.get_config_var("EXE") or "")
    folders = [sysconfig.get_path("scripts")]
    if user := sysconfig.get_preferred_scheme("user"):
        folders.append(sysconfig.get_path("scripts", scheme=user))
    # `pip install --target FOLDER` puts programs into FOLDER/bin.
    folders.append(str(Path(__file__).parents[1] / "bin"))
    for folder in folders:
        path = Path(folder) / name
        if path.is_file():
            return str(path)
    raise FileNotFoundError(
        f"the program {name} is in none of {', '.join(folders)}: install the wheel of rtc-lang, or name the program in the "
        "environment variable RTC_PROGRAM"
    )


def version() -> str:
    """The version of the program, with the hash of its code that runs hold in their records."""
    return command("--version").strip()


def command(*arguments: object, input: str | None = None, show: bool = False) -> str:
    """Runs the program and returns its standard output.

    Messages of the program go to `sys.stderr` as they come where `show` asks for them. A failure is the exception of its exit code.
    An interrupt (`KeyboardInterrupt`) is passed on to the program, so that a training saves before this returns; a second one ends
    the program at once."""
    # Bytes, because pipes of texts take more than `\n` for the end of a line. A text that is no Unicode is refused here.
    given = None if input is None else input.encode()
    output: list[str] = []
    messages: list[str] = []
    with started(arguments, show, stdin=subprocess.DEVNULL if input is None else subprocess.PIPE) as process:
        # All pipes at once: none may fill up while another one is waited for.
        threads = [Thread(target=_collect, args=(process, output)), Thread(target=_feed, args=(process, given))]
        for thread in threads:
            thread.start()
        try:
            _listen(process, messages, show)
            code = process.wait()
        except BaseException:
            _interrupt(process, messages, show)
            raise
        finally:
            for thread in threads:
                thread.join()
    result = _plain("".join(output))
    if code != 0:
        raise failure(code, _plain("".join(messages)), result)
    return result


def started(
    arguments: Iterable[object], show: bool, stdin: int = subprocess.DEVNULL, stderr: int | IO[bytes] = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """The program, begun."""
    words = [program(), *([] if show else ["--quiet"]), *map(_word, arguments)]
    # In a session of its own it gets an interrupt from here alone, once: a second one would end it unsaved.
    return subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True)


class LineStream:
    """The lines that the program prints to standard output, as they come. The program never waits for their reader."""

    def __init__(self, arguments: Iterable[object], show: bool) -> None:
        self._process = started(arguments, show)
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._messages: list[str] = []
        # The threads must not hold this object: the program is asked to stop when nothing else holds it.
        threads = [
            Thread(target=_queue, args=(self._process, self._lines), daemon=True),
            Thread(target=_listen, args=(self._process, self._messages, show), daemon=True),
        ]
        for thread in threads:
            thread.start()
        self._end = weakref.finalize(self, _end, self._process, threads)

    def __iter__(self) -> LineStream:
        return self

    def __next__(self) -> str:
        """The next line. Raises the exception of the exit code where the program has failed."""
        try:
            line = self._lines.get() if self._end.alive else None
        except BaseException:
            self._end()
            raise
        if line is not None:
            return line
        self._end()
        if self._process.returncode != 0:
            raise self._failure()
        raise StopIteration

    def close(self, but: int = 0) -> None:
        """Asks the program to stop, and waits for it. An exit code other than 0 and `but` is an exception."""
        if self._end.alive:
            self._end()
            if self._process.returncode not in (0, but):
                raise self._failure()

    def _failure(self) -> RtcError:
        return failure(self._process.returncode, _plain("".join(self._messages)), "")


def _queue(process: subprocess.Popen[bytes], lines: SimpleQueue[str | None]) -> None:
    """Keeps whole lines: a killed program may leave half of one."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith(b"\n"):
            lines.put(_plain(_text(line)))
    lines.put(None)


def _end(process: subprocess.Popen[bytes], threads: list[Thread]) -> None:
    """Asks the program to stop, if it runs, and waits for it; an interrupt meanwhile ends it."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    try:
        process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        for thread in threads:
            thread.join()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def call(words: Sequence[str], asked: Sequence[str], names: Sequence[object], **how: Any) -> str:
    """Runs a command with its options, and with names behind `--`: a name that begins with `-` is a name there, and never an option."""
    return command(*words, *asked, "--", *names, **how)


def records(words: Sequence[str], asked: Sequence[str], names: Sequence[object], **how: Any) -> Any:
    """As `call`, and reads the JSON that the command prints."""
    return parsed(call(words, asked, names, **how))


def parsed(text: str) -> Any:
    """Reads JSON of the program."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        begin = text.strip()[:60]
        raise RtcError(
            f"the output of {program()} must be JSON: got {begin!r} ({error}). Check RTC_PROGRAM", 0, text
        ) from None


def _word(argument: object) -> str:
    return os.fspath(argument) if isinstance(argument, os.PathLike) else str(argument)


def _interrupt(process: subprocess.Popen[bytes], messages: list[str], show: bool) -> None:
    """Asks the program to stop, and waits for it; another interrupt ends it."""
    process.send_signal(signal.SIGINT)
    try:
        _listen(process, messages, show)
        process.wait()
    except BaseException:
        process.kill()
        raise


def _collect(process: subprocess.Popen[bytes], output: list[str]) -> None:
    assert process.stdout is not None
    output.append(_text(process.stdout.read()))


def _feed(process: subprocess.Popen[bytes], text: bytes | None) -> None:
    """The program may end without reading everything."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.write(text or b"")
        with suppress(BrokenPipeError):
            process.stdin.close()


def _listen(process: subprocess.Popen[bytes], messages: list[str], show: bool) -> None:
    assert process.stderr is not None
    for line in map(_text, process.stderr):
        # What comes from the first error on is the text of the exception.
        show = show and not _is_error(line)
        messages.append(line)
        if show:
            print(_plain(line), end="", file=sys.stderr, flush=True)


def _text(written: bytes) -> str:
    return written.decode(errors="replace")


def lines(text: str) -> list[str]:
    """The lines of the program's output, which end with `\n`: `str.splitlines` takes U+0085, U+2028 and others for ends of lines, too."""
    return text.removesuffix("\n").split("\n") if text else []


def _is_error(line: str) -> bool:
    return line.startswith(("error:", "error["))


def failure(code: int, messages: str, output: str) -> RtcError:
    """The exception of an exit code, with what the program says from its first error on."""
    told = lines(messages)
    first = next((n for n, line in enumerate(told) if _is_error(line)), 0)
    text = "\n".join(told[first:]).strip()
    text = text.removeprefix("error: ") or f"rtc ended with code {code}"
    return BY_CODE.get(code, RtcError)(text, code, output)


@cache
def _texts() -> tempfile.TemporaryDirectory[str]:
    """The folder of specs that were given as texts. It goes when Python ends."""
    return tempfile.TemporaryDirectory(prefix="rtc-texts-")


def stored(text: str, name: str = "spec") -> Path:
    """A file with a spec that was given as a text."""
    folder = Path(_texts().name) / hashlib.sha256(text.encode()).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    path = folder / f"{name.replace(':', '.')}.rt"
    path.write_text(text, encoding="utf-8")
    return path


def _plain(text: str) -> str:
    """A text of the program in which a spec that was given as a text is `spec.rt`, without the folder."""
    if not _texts.cache_info().currsize:
        return text
    return re.sub(re.escape(_texts().name) + r"/[0-9a-f]{16}/", "", text)


def edits(flag: str, given: Edits) -> list[str]:
    """The arguments of edits. Values of an experiment (`--with`) are YAML, which JSON is a part of; those of a spec are its grammar."""
    if given is None:
        return []
    if isinstance(given, str):
        raise TypeError(f"edits are a mapping or a list of texts; write [{given!r}]")
    if isinstance(given, Mapping):
        given = [f"{path}={_value(flag, value)}" for path, value in given.items()]
    return [f"{flag}={edit}" for edit in given]


def _value(flag: str, value: object) -> str:
    return json.dumps(value) if flag == "--with" else str(value).lower() if isinstance(value, bool) else str(value)


def options(**given: object) -> list[str]:
    """The arguments of options that were given: `max_steps=5` is `--max-steps=5`, `fresh=True` is `--fresh`.

    A value stands in the word of its option, so that one that begins with `-` is no option itself."""
    words: list[str] = []
    for name, value in given.items():
        flag = "--" + name.replace("_", "-")
        values: Iterable[object] = value if isinstance(value, (list, tuple)) else [value]
        for one in values:
            if one is True:
                words.append(flag)
            elif one is not None and one is not False:
                words.append(f"{flag}={_word(one)}")
    return words
