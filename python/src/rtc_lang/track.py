"""`rtc-track mlflow|wandb|aim RUN`, or `python -m rtc_lang.track`: follows a run while it trains, under the names of `trackers`.

It ends when the run has ended. Of a run that is resumed it adds what the store does not have.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from os import PathLike

from .errors import InputOutputError
from .run import Run, load
from .trackers import STORES, Store, guarded, history, parser


def begun(named: str | PathLike[str], seconds: float) -> Run:
    """The run, after so many seconds at most if it is not there or does not train."""
    end = time.monotonic() + seconds
    while True:
        late = time.monotonic() >= end
        try:
            run = load(named)
            if late or run.state in ("running", "finished"):
                return run
        except InputOutputError:
            if late:
                raise
        time.sleep(0.2)


def follow(run: Run, every: float) -> Iterator[Run]:
    """The run as it is now, again and again while it trains, and at last as it ended."""
    while True:
        yield run
        if run.state != "running":
            return
        time.sleep(every)
        start = time.monotonic()
        # Its folder: `@last` may be another run by now. The program reads the state before the records, so nothing follows an end.
        run = load(run)
        # The records of a long run are many: reading them takes a sixth of the time at most.
        time.sleep(max(0.0, 5 * (time.monotonic() - start) - every))


def ready(run: Run, store: Store) -> dict[int, dict[str, float]]:
    """The points to which nothing is added any more: dev may be measured after an update has been logged, also when it is resumed."""
    points = history(run)
    if points and (run.state == "running" or (run.state != "finished" and not store.takes_late)):
        points.popitem()
    return points


def main(words: list[str] | None = None) -> int:
    """Follows a run; the exit code is that of the program where the run can't be read, and 130 after an interrupt."""
    options = parser("rtc-track", "Writes a run into the store of another program while it trains.")
    options.add_argument("run", metavar="RUN", help="the folder of a run, its name below `runs`, or @last")
    options.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="look so often (2)")
    options.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait so long for a training that has not begun (0)"
    )
    asked = options.parse_args(words)

    def track() -> int:
        run = begun(asked.run, asked.wait)
        store = STORES[asked.to](run, asked.project, asked.place, False)
        print(f"{run.name}: {store.told}", flush=True)
        added = 0
        try:
            for now in follow(run, asked.every):
                added += store.log(ready(now, store))
        except BaseException:
            store.leave()
            raise
        store.end(now)
        print(f"{now.name} is {now.state}: {added:,} points added")
        return 0

    try:
        return guarded(asked.to, track)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
