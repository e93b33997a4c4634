"""The weights of a run in one process of the program, asked batch after batch."""

from __future__ import annotations

import json
import signal
import struct
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from subprocess import PIPE, Popen
from threading import Lock
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any
from weakref import finalize

from .errors import BY_CODE, RtcError
from .program import failure, options, program, started

if TYPE_CHECKING:
    from numpy import ndarray
    from typing_extensions import Self

TOKENS, TEXTS, OBJECTS = range(3)
READY, LOGITS, FAILURE = range(3)
"""Kinds of frames, as docs/command.md has them."""
HEAD = struct.Struct("<IQ")
"""The kind of a frame, and the bytes behind its head."""


class Model:
    """A trained model that is called with batches and returns logits: `rtc predict RUN --frames`, which holds the weights.

    The process begins here and ends with `close`, at the end of a `with`, or when nothing holds the model. Other options of
    `rtc predict` are given by name: `checkpoint="last"`, `depth=20`, `threads=2`, `device="cuda"`."""

    answers: str
    """`class`, `class of a pair`, `class of every token`, `several labels` or `number`."""
    classes: list[str]
    """The names of the classes or labels, in the order of the logits."""
    vocabulary: int
    """Number of token ids."""

    def __init__(self, run: str | PathLike[str], **more: object) -> None:
        _numpy()
        self._words = ["predict", *options(**more), "--frames", "--", run]
        self._lock = Lock()
        self._program: _Program | None = None
        self._closed = False
        ready = self._begin().ready
        self.answers, self.classes, self.vocabulary = ready["answers"], ready["classes"], ready["vocabulary"]

    def __call__(
        self,
        rows: Any,
        lengths: Any = None,
        second: Any = None,
        second_lengths: Any = None,
    ) -> Any:
        """The logits of a batch: an array of NumPy (float32), or a tensor on the device of `rows` if these are a tensor of PyTorch.

        `rows` are token ids, an array or a tensor `[rows, length]` of which each row has its first `lengths[row]` ids (all without
        `lengths`), or lists of ids; or texts; or mappings with the columns of the task. Of pairs as ids, `second` and `second_lengths`
        are the second sides; a text of a pair has a tab between its sides.

        Shapes are `[rows, classes]`; `[rows, length, classes]` with a class for every token, zeros behind the end of a row; `[rows,
        labels]` of several labels; `[rows, 1]` where a number is predicted, in the unit of the data. Softmax makes probabilities of classes,
        of two, too: the logit of the first is 0 then. Sigmoid makes those of labels."""
        numpy = _numpy()
        kind, batch, width = _batch(rows, lengths, self.answers)
        if (second is not None) != (kind == TOKENS and self.answers == "class of a pair"):
            raise ValueError("`second` must be given with token ids of a model for pairs, and with nothing else")
        if second is not None:
            seconds = _batch(second, second_lengths, self.answers)[1]
            if len(seconds) != len(batch):
                raise ValueError(f"`second` must have as many rows as `rows` ({len(batch)}): got {len(seconds)}")
            batch += seconds
        if not batch:
            last = 1 if self.answers == "number" else len(self.classes)
            shape = [0, width, last] if self.answers == "class of every token" else [0, last]
            return _as(rows, numpy.zeros(shape, numpy.float32))
        size = 4 if kind == TOKENS else 1
        sizes = struct.pack(f"<{len(batch) + 1}I", len(batch), *(len(row) // size for row in batch))
        with self._lock:
            payload = self._begin().ask(kind, sizes + b"".join(batch), self._drop)
        count, last = struct.unpack_from("<2I", payload)
        of_rows = struct.unpack_from(f"<{count}I", payload, 8)
        found = numpy.frombuffer(payload, "<f4", offset=8 + 4 * count).reshape(-1, last)
        if self.answers != "class of every token":
            return _as(rows, found.astype(numpy.float32))
        out = numpy.zeros((count, max(width, *of_rows), last), numpy.float32)
        ends = numpy.cumsum(of_rows)
        for row, (end, length) in enumerate(zip(ends, of_rows, strict=True)):
            out[row, :length] = found[end - length : end]
        return _as(rows, out)

    def _begin(self) -> _Program:
        """The process; a new one where an interrupt has ended the last."""
        if self._closed:
            raise ValueError("this model is closed: `Model(run)` opens another one")
        if self._program is None:
            self._program = _Program(self._words)
        return self._program

    def _drop(self) -> None:
        self._program = None

    def close(self) -> None:
        """Ends the process. May be called twice."""
        self._closed = True
        if self._program is not None:
            self._program.end()
            self._program = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<rtc.Model {self._words[-1]}: {self.answers}{', closed' if self._closed else ''}>"


class _Program:
    """The program, with its pipes. Messages go to a file: nothing has to read them meanwhile."""

    def __init__(self, words: Sequence[object]) -> None:
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `_end`)
        self._process = started(words, False, stdin=PIPE, stderr=self._messages)
        self.end = finalize(self, _end, self._process, self._messages)
        self.ready: dict[str, Any] = json.loads(self._read()[1])

    def ask(self, kind: int, payload: bytes, lost: Any) -> bytes:
        """The logits of a batch. After an interrupt an answer may be half read: the process is ended, and `lost` called."""
        assert self._process.stdin is not None
        most = self.ready["bytes"]
        if len(payload) > most:
            raise ValueError(f"a batch must have at most {most:,} bytes: got {len(payload):,}; give fewer rows at once")
        try:
            with suppress(BrokenPipeError):
                self._process.stdin.write(HEAD.pack(kind, len(payload)) + payload)
                self._process.stdin.flush()
            kind, answer = self._read()
        except BaseException:
            self.end()
            lost()
            raise
        if kind == FAILURE:
            [code] = struct.unpack_from("<I", answer)
            raise BY_CODE.get(code, RtcError)(answer[4:].decode(), code)
        return answer

    def _read(self) -> tuple[int, bytes]:
        head = self._bytes(HEAD.size)
        kind, length = HEAD.unpack(head)
        if kind not in (READY, LOGITS, FAILURE):
            self.end()
            raise RtcError(f"the output of {program()} must be frames: got {head!r}. Check RTC_PROGRAM", 0)
        return kind, self._bytes(length)

    def _bytes(self, count: int) -> bytes:
        assert self._process.stdout is not None
        found = self._process.stdout.read(count)
        if len(found) < count:
            # It has ended: its exit code and its messages say why.
            code = self._process.wait()
            self._messages.seek(0)
            told = self._messages.read().decode(errors="replace")
            self.end()
            raise failure(code, told, "")
        return found


def _end(process: Popen[bytes], messages: IO[bytes]) -> None:
    """Ends the program, which has nothing to save, and closes its pipes."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.wait()
    for pipe in (process.stdin, process.stdout, messages):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _batch(rows: Any, lengths: Any, answers: str) -> tuple[int, list[bytes], int]:
    """The kind of a batch, the content of its rows, and the length that all rows have in an array."""
    numpy = _numpy()
    if not hasattr(rows, "shape") and len(rows) > 0 and isinstance(rows[0], (str, Mapping)):
        if lengths is not None:
            raise ValueError("`lengths` go with token ids: a text is taken whole")
        texts = isinstance(rows[0], str)
        if any(isinstance(row, str) != texts for row in rows):
            raise ValueError("a batch must be texts or mappings: got both")
        lines = rows if texts else [json.dumps(row, ensure_ascii=False) for row in rows]
        return TEXTS if texts else OBJECTS, [line.encode() for line in lines], 0
    if not hasattr(rows, "shape"):
        if lengths is not None:
            raise ValueError("`lengths` go with an array: a list of ids is taken whole")
        return TOKENS, [_ids(numpy.asarray(row)) for row in rows], max(map(len, rows), default=0)
    array = _array(rows)
    if array.ndim != 2:
        raise ValueError(f"token ids must be an array of the shape [rows, length]: got {list(array.shape)}")
    ends = numpy.full(len(array), array.shape[1]) if lengths is None else _array(lengths)
    if ends.shape != (len(array),) or (len(ends) and (ends.min() < 1 or ends.max() > array.shape[1])):
        raise ValueError(f"`lengths` must be {len(array)} numbers from 1 to {array.shape[1]}: got {ends.tolist()}")
    return TOKENS, [_ids(row[:end]) for row, end in zip(array, ends, strict=True)], int(array.shape[1])


def _ids(row: ndarray[Any, Any]) -> bytes:
    """Token ids as the program reads them."""
    if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
        raise ValueError(f"token ids must be whole numbers in a row: got {row.tolist()!r}")
    if row.size and (row.min() < 0 or row.max() >= 2**32):
        raise ValueError(f"token ids must be from 0 to 4294967295: got {row.tolist()!r}")
    return row.astype("<u4").tobytes()


def _array(given: Any) -> ndarray[Any, Any]:
    """An array of an array or a tensor."""
    array: ndarray[Any, Any] = _numpy().asarray(given.detach().cpu() if _is_tensor(given) else given)
    return array


def _is_tensor(given: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(given, torch.Tensor)


def _as(rows: Any, found: ndarray[Any, Any]) -> Any:
    """An array as a tensor, where the rows were one."""
    return sys.modules["torch"].from_numpy(found).to(rows.device) if _is_tensor(rows) else found


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ImportError("models need NumPy: pip install 'rtc-lang[numpy]'") from error
    return numpy
