# SPDX-License-Identifier: BSD-3-Clause
"""One run of the library: opened, run and waited for so that Ctrl-C ends it, read, closed."""

from __future__ import annotations

import ctypes
import os
import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _c
from ._embedding import Embedding
from ._labels import Variable
from ._options import Settings

_DTYPES = {
    _c.Array.OBSERVED: np.float64,
    _c.Array.EXPECTED: np.float64,
    _c.Array.LAMBDA: np.float64,
    _c.Array.THETA: np.float64,
    _c.Array.SIGMA: np.float64,
    _c.Array.BLOCKS: np.int32,
}
_AXES = {
    _c.Array.CORRECTION: 3,
    _c.Array.SLOPES: 3,
    _c.Array.THETA: 1,
    _c.Array.SIGMA: 1,
    _c.Array.BLOCKS: 1,
}


class Progress(NamedTuple):
    """Where a run is.

    Attributes
    ----------
    round
        Rounds finished; 0 in the first call, when the starting centroids are there.
    max_rounds
        Rounds at most.
    objective
        After the round's last sweep.
    change
        Of the correction, relative; 1 after the first round.
    seconds
        Since the run began.
    level
        With ``within``: whose run this is; else None.
    """

    round: int
    max_rounds: int
    objective: float
    change: float
    seconds: float
    level: str | None = None


class Report(NamedTuple):
    """What the library's summary says, copied."""

    sizes: dict[str, int]
    backend: str
    threads: int
    bytes: int
    bytes_card: int
    reason: _c.Reason
    reason_text: str
    rounds: list[dict[str, Any]]
    objectives: list[dict[str, Any]]
    warnings: list[str]
    seconds: dict[str, float]


def _close(pointer: int, pid: int) -> None:
    # A child made by fork has no worker threads to wait for; what the run holds ends with the
    # child.
    if os.getpid() == pid:
        _c.library.uni_close(pointer)


def _dict_of(struct: ctypes.Structure) -> dict[str, Any]:
    return {name: getattr(struct, name) for name, *_ in struct._fields_}


class Run:
    """A run that was opened. Reading from it is possible until :meth:`close`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pointer: int | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize | None = None
        self._cancel = ctypes.c_int(0)
        settings.c.cancel = ctypes.pointer(self._cancel)

    def open(self, embedding: Embedding, variables: Sequence[Variable]) -> None:
        pointer = ctypes.c_void_p()
        matrix = embedding.matrix()
        batches = (_c.Batch * len(variables))(*(variable.batch() for variable in variables))
        status = _c.library.uni_open(
            ctypes.byref(pointer),
            ctypes.byref(matrix),
            batches,
            len(variables),
            ctypes.byref(self._settings.c),
        )
        _c.check(status)
        assert pointer.value is not None
        self._pointer = pointer.value
        # The cancel flag and the callback are named here because the library refers to them until
        # it is closed.
        self._finalizer = weakref.finalize(
            self, _close_and_let_go, self._pointer, self._pid, [self._cancel, self._settings]
        )

    def run(self) -> None:
        status = _c.library.uni_run(self._pointer)
        if status == _c.Status.STOPPED and not self.cancelled:
            return  # the caller's own wish: what the last round left can be read
        _c.check(status)

    def cancel(self) -> None:
        """Any thread may call this: the run gives up within milliseconds."""
        self._cancel.value = 1

    @property
    def cancelled(self) -> bool:
        return bool(self._cancel.value)

    def report(self) -> Report:
        s = _c.library.uni_summary(self._pointer).contents
        return Report(
            sizes={
                name: getattr(s, name)
                for name in (
                    "n_cells",
                    "n_skipped",
                    "n_dims",
                    "n_levels",
                    "n_clusters",
                    "n_variables",
                )
            },
            backend=_c.text(s.backend),
            threads=s.threads,
            bytes=s.bytes,
            bytes_card=s.bytes_card,
            reason=_c.Reason(s.reason),
            reason_text=_c.text(s.reason_text),
            rounds=[_dict_of(s.rounds[i]) for i in range(s.n_rounds)],
            objectives=[_dict_of(s.objectives[i]) for i in range(s.n_objectives)],
            warnings=[_c.text(s.warnings[i]) for i in range(s.n_warnings)],
            seconds={
                name.removeprefix("seconds_"): getattr(s, name)
                for name, *_ in s._fields_
                if name.startswith("seconds_")
            },
        )

    def read(self, what: _c.Array) -> np.ndarray:
        """An array of the run, in memory of its own."""
        return self.use(lambda pointer: self._read(pointer, what))

    @staticmethod
    def _read(pointer: int, what: _c.Array) -> np.ndarray:
        shape = (ctypes.c_int64 * 3)()
        _c.check(_c.library.uni_shape(pointer, what, shape))
        array = np.empty(tuple(shape)[: _AXES.get(what, 2)], _DTYPES.get(what, np.float32))
        _c.check(_c.library.uni_read(pointer, what, array.ctypes.data))
        return array

    def use(self, function: Callable[[int], Any]) -> Any:
        """What ``function`` makes of the library's pointer, while nobody else uses it."""
        with self._lock:
            if self._pointer is None:
                raise RuntimeError("this result was closed; read what you need before")
            if os.getpid() != self._pid:
                raise RuntimeError(
                    "this result was made before the process forked; "
                    "read what you need before forking"
                )
            return function(self._pointer)

    def close(self) -> None:
        with self._lock:
            self._pointer = None
            if self._finalizer is not None:
                self._finalizer()

    def set_callback(self, function: Callable[[Progress], Any]) -> None:
        """``function`` is called in the thread of :meth:`run`; true stops the run."""

        def call(pointer: Any, _user: Any) -> int:
            p = pointer.contents
            return int(
                bool(function(Progress(p.round, p.max_rounds, p.objective, p.change, p.seconds)))
            )

        self._settings.c.progress = _c.ProgressFn(call)

    def drop_callback(self) -> None:
        """After the run: the callback may refer to this object, which would then live on."""
        self._settings.c.progress = _c.ProgressFn()


def _close_and_let_go(pointer: int, pid: int, _kept: list[Any]) -> None:
    _close(pointer, pid)


class _Question:
    """A report of progress on its way to the waiting thread, and the answer on its way back.

    The answer comes by a SimpleQueue, whose put is one step to an interrupt: an Event can be left
    locked by one, and its other side then waits forever.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.answer: queue.SimpleQueue[bool] = queue.SimpleQueue()


def carry_out(run: Run, work: Callable[[], Any], progress: Callable[[Progress], Any] | None) -> Any:
    """Does ``work``, in which ``run`` is opened and run; Ctrl-C makes it give up.

    In the main thread, which is the one that gets signals, the work is done in a thread of its own
    while this one waits: signals then arrive although the library computes. ``progress`` is always
    called in the caller's thread.
    """
    try:
        if threading.current_thread() is threading.main_thread():
            return _there(run, work, progress)
        return _here(run, work, progress)
    except BaseException:
        run.close()
        raise
    finally:
        run.drop_callback()


def _there(run: Run, work: Callable[[], Any], progress: Callable[[Progress], Any] | None) -> Any:
    mail: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask(p: Progress) -> bool:
        question = _Question(p)
        mail.put(question)
        # Ctrl-C may lose the question between the mail and its reader, at any instruction.
        while not run.cancelled:
            try:
                return question.answer.get(timeout=0.05)
            except queue.Empty:
                pass
        return True

    def job() -> None:
        if run.cancelled:  # interrupted while this thread was being started: nobody waits for it
            return
        try:
            mail.put((work(), None))
        except BaseException as error:  # noqa: BLE001  carried to the waiting thread
            mail.put((None, error))

    if progress is not None:
        run.set_callback(ask)
    thread = threading.Thread(target=job, name="unisono")
    try:
        thread.start()
        result, error = _wait(mail, progress)
    except BaseException:
        run.cancel()
        _wait_out(thread)
        raise
    thread.join()
    if error is not None:
        try:
            raise error
        finally:
            del error  # else it and this frame hold each other, and the run
    return result


def _wait(
    mail: queue.SimpleQueue[Any], progress: Callable[[Progress], Any] | None
) -> tuple[Any, BaseException | None]:
    while True:
        item = mail.get()
        if not isinstance(item, _Question):
            return item
        stop = True
        try:
            stop = bool(progress(item.progress)) if progress else False
        finally:
            item.answer.put(stop)  # an exception leaves stop set


def _wait_out(thread: threading.Thread) -> None:
    """Waits for a cancelled run.

    Further Ctrl-C change nothing, for the end is milliseconds away.
    """
    while thread.is_alive():
        try:
            thread.join(0.05)
        except KeyboardInterrupt:
            pass


def _here(run: Run, work: Callable[[], Any], progress: Callable[[Progress], Any] | None) -> Any:
    raised: list[BaseException] = []

    def ask(p: Progress) -> bool:
        try:
            return bool(progress(p)) if progress else False
        except BaseException as error:  # noqa: BLE001  must not cross the C frames
            raised.append(error)
            return True

    if progress is not None:
        run.set_callback(ask)
    result = work()
    if raised:
        raise raised.pop()
    return result
