# SPDX-License-Identifier: BSD-3-Clause
"""Runs beside other things: threads, forks, signals, progress, and nothing global touched."""

import logging
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import unisono

LONG = {"tol": -1, "max_rounds": 100_000}


def script(text, *arguments, **kwargs):
    command = [sys.executable, "-c", textwrap.dedent(text), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def test_p66_p70_seed(blobs):
    Z, batch = blobs
    runs = [unisono.harmonize(Z, batch, seed=s).embedding.tobytes() for s in (0, 0, 1)]
    assert runs[0] == runs[1] != runs[2]
    assert unisono.harmonize(Z, batch).embedding.tobytes() == runs[0]


def test_p67_any_number_of_threads(blobs):
    Z, batch = blobs
    runs = {unisono.harmonize(Z, batch, threads=t).embedding.tobytes() for t in (1, 2, 3, 8)}
    assert len(runs) == 1


def test_p71_session_state_is_not_read_and_nothing_is_changed(blobs):
    Z, batch = blobs
    first = unisono.harmonize(Z, batch).embedding.tobytes()
    np.random.rand(5)
    random.random()

    def state():
        numpy_state = np.random.get_state()
        return (
            random.getstate(), numpy_state[1].tobytes(), numpy_state[2:],
            dict(os.environ), list(warnings.filters), np.geterr(), os.getcwd(),
            signal.getsignal(signal.SIGINT), sys.gettrace(), sys.getswitchinterval(),
            logging.getLogger().level, list(logging.getLogger().handlers),
            threading.active_count(), threading.excepthook,
        )  # fmt: skip

    before = state()
    assert unisono.harmonize(Z, batch).embedding.tobytes() == first
    assert state() == before


def test_p74_order_of_cells(blobs):
    Z, batch = blobs
    order = np.random.default_rng(0).permutation(len(Z))
    a = unisono.harmonize(Z, batch, clusters=20).embedding[order]
    b = unisono.harmonize(Z[order], batch[order], clusters=20).embedding
    assert min(np.corrcoef(x, y)[0, 1] for x, y in zip(a.T, b.T)) >= 0.99


def test_two_calls_at_once_are_two_in_a_row(blobs):
    Z, batch = blobs
    jobs = [{"seed": s, "threads": 1 + s % 2} for s in range(6)]
    row = [unisono.harmonize(Z, batch, **job).embedding.tobytes() for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        once = list(
            pool.map(lambda job: unisono.harmonize(Z, batch, **job).embedding.tobytes(), jobs)
        )
    assert once == row


def test_errors_of_threads_are_their_own(Z, labels):
    def one(i):
        with pytest.raises(ValueError, match=f'theta is "-{i + 1}"'):
            unisono.harmonize(Z, labels, theta=-i - 1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(40)))


def test_the_interpreter_runs_on(blobs):
    Z, batch = np.tile(blobs[0], (20, 1)), np.tile(blobs[1], 20)
    done, ticks = threading.Event(), []

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.perf_counter()
    unisono.harmonize(Z, batch, tol=-1, max_rounds=20, threads=1)
    ended = time.perf_counter()
    done.set()
    thread.join()
    assert sum(began < t < ended for t in ticks) >= 5  # few: this machine may have much to do


@linux
def test_no_thread_is_left():
    text = """
        import os, time, numpy as np, unisono
        def tasks():
            time.sleep(0.2)  # a thread that was waited for may take a moment to leave /proc
            return len(os.listdir("/proc/self/task"))
        Z, batch = np.random.default_rng(0).normal(size=(2000, 5)), np.arange(2000) % 3
        before = tasks()
        result = unisono.harmonize(Z, batch, threads=4)
        result.close()
        closed = tasks()
        unisono.harmonize(Z, batch, threads=4)
        assert unisono.run_harmony(Z, {"b": batch}, "b", ncores=4).Z_corr.size
        print(closed - before, tasks() - before)
    """
    assert script(text).stdout == "0 0\n"


@linux
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork(blobs):
    expected = unisono.harmonize(*blobs, threads=3)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = unisono.harmonize(*blobs, threads=3)
            ok = same.embedding.tobytes() == expected.embedding.tobytes() and same.R.shape[
                0
            ] == len(blobs[0])
            try:
                expected.R  # noqa: B018
                ok = False
            except RuntimeError as error:
                ok = ok and "fork" in str(error)
            expected.close()
            os.write(writer, b"ok" if ok else b"no")
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0 and os.read(reader, 10) == b"ok"
    os.close(reader)
    assert expected.R.shape[0] == len(blobs[0])  # the parent's is untouched


INTERRUPTED = """
    import sys, time, numpy as np, unisono
    rng = np.random.default_rng(0)
    Z, batch = rng.normal(size=(30000, 20)), rng.integers(0, 4, 30000)
    def call():
        if sys.argv[1] == "adata":
            import anndata
            global adata
            adata = anndata.AnnData(np.zeros((30000, 1), "f"), obsm={"X_pca": Z})
            adata.obs["batch"] = batch.astype(str)
            unisono.pp.harmony_integrate(
                adata, "batch", max_iter_harmony=100000, tol=-1, progress=tell
            )
        else:
            unisono.harmonize(Z, batch, tol=-1, max_rounds=100000, progress=tell)
    def tell(p):
        if p.round == 1:
            print("running", flush=True)
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    if sys.argv[1] == "adata":
        assert list(adata.obsm) == ["X_pca"] and not adata.uns
    print(unisono.harmonize(Z[:500], batch[:500]).n_rounds > 1)
"""


@pytest.mark.parametrize("what", ["arrays", "adata"])
def test_ctrl_c(what):
    if what == "adata":
        pytest.importorskip("anndata")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), what],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "running\n"
        time.sleep(0.2)
        began = time.perf_counter()
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert time.perf_counter() - began < 20  # milliseconds on a free machine; the run would take minutes
        assert process.stdout.read() == "True\n"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_moment(blobs):
    """Whatever instruction it hits: the call raises it or ends, and nothing is left behind."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("no timers here")

    def interrupt(*_):
        raise KeyboardInterrupt

    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for delay in np.random.default_rng(0).uniform(0.0002, 0.03, 100):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                unisono.harmonize(*blobs, max_rounds=30, tol=-1, progress=lambda p: False)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 10
    time.sleep(0.1)
    # One whose start was interrupted before it began stays in CPython's own list, as "initial"
    assert not [t for t in threading.enumerate() if t.name == "unisono" and t.is_alive()]
    assert unisono.harmonize(*blobs).converged


def test_progress_and_a_wish_to_stop(blobs):
    seen, where = [], set()

    def tell(p):
        seen.append(p)
        where.add(threading.current_thread())
        return p.round == 2

    result = unisono.harmonize(*blobs, progress=tell, **LONG)
    assert [p.round for p in seen] == [0, 1, 2] and seen[0].max_rounds == 100_000
    assert where == {threading.current_thread()}
    assert result.n_rounds == 2 and not result.converged and "stopped" in result.reason
    two = unisono.harmonize(*blobs, max_rounds=2, tol=-1)
    assert two.embedding.tobytes() == result.embedding.tobytes()
    assert [r["objective"] for r in result.rounds] == [p.objective for p in seen[1:]]


@pytest.mark.parametrize("in_thread", [False, True])
def test_an_error_of_the_callback_comes_through(blobs, in_thread):
    def fail(p):
        raise KeyError("mine")

    def call():
        with pytest.raises(KeyError, match="mine"):
            unisono.harmonize(*blobs, progress=fail, **LONG)
        return True

    if in_thread:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(call).result()
    else:
        assert call()
    assert unisono.harmonize(*blobs).converged


def test_p56_rounds_and_reason(blobs):
    result = unisono.harmonize(*blobs, max_rounds=7, tol=-1)
    assert result.n_rounds == len(result.rounds) == 7 and result.reason == "round limit"
    assert unisono.harmonize(*blobs, max_rounds=0).reason.startswith("no rounds")


def test_p57_terms(blobs):
    result = unisono.harmonize(*blobs, terms=True)
    for o in result.objectives:
        assert np.isclose(o["total"], o["distance"] + o["entropy"] + o["diversity"])


def test_p63_p64_quiet():
    text = """
        import numpy as np, unisono
        Z = np.random.default_rng(0).normal(size=(600, 5))
        unisono.harmonize(Z, np.arange(600) % 3, progress={})
    """
    for progress in (False, True):
        done = script(text.format(progress))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_p64_bar_on_a_terminal():
    pytest.importorskip("tqdm")
    import fcntl
    import pty
    import struct
    import termios

    text = (
        "import numpy as np, unisono; "
        "unisono.harmonize(np.eye(60), np.arange(60) % 3, progress=True, tol=-1)"
    )
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    subprocess.run([sys.executable, "-c", text], stderr=terminal, check=True, timeout=60)
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(reader, 4096):
            shown += chunk
    except OSError:
        pass
    os.close(reader)
    assert b"unisono" in shown and b"\r" in shown


def test_p65_logging(blobs):
    logger = logging.getLogger("unisono")
    assert logger.level == logging.NOTSET and logger.propagate
    assert all(isinstance(h, logging.NullHandler) for h in logger.handlers)
    text = """
        import logging, sys, numpy as np, unisono
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(message)s")
        Z = np.random.default_rng(0).normal(size=(600, 5))
        unisono.harmonize(Z, np.arange(600) % 3, progress=True, max_rounds=2)
    """
    lines = script(text).stdout.splitlines()
    assert len(lines) == len(set(lines)) == 4 and all(line.startswith("unisono ") for line in lines)


def test_p82_threads_of_the_affinity():
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("no affinity here")
    text = """
        import os, numpy as np, unisono
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        result = unisono.harmonize(np.eye(60), np.arange(60) % 3)
        print(result.threads, unisono.plan(3, [1, 2] * 5).threads)
    """
    assert script(text).stdout == "1 1\n"


def test_p90_size_and_needs():
    package = os.path.dirname(unisono.__file__)
    size = sum(
        os.path.getsize(os.path.join(f, n)) for f, _, names in os.walk(package) for n in names
    )
    assert size < 30e6
    text = """
        import sys, unisono
        heavy = {"scipy", "pandas", "anndata", "matplotlib", "tqdm", "torch", "sklearn"}
        result = unisono.harmonize([[0.0], [1.0]], [0, 1])
        print(sorted(heavy & set(sys.modules)), unisono.__version__ == result.version)
    """
    done = script(text)
    assert done.stdout == "[] True\n", done.stderr


def test_one_warning_s_line(blobs):
    with pytest.warns(unisono.UnisonoWarning) as caught:
        unisono.harmonize(blobs[0], np.zeros(len(blobs[0]), int))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(unisono.UnisonoWarning):
            unisono.harmonize(blobs[0], np.zeros(len(blobs[0]), int))
