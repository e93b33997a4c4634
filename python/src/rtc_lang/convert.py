"""`python -m rtc_lang.convert mlflow|wandb|aim RUN...`: runs in the stores of other programs, under the names of `trackers`.

A run that is there already is replaced: so a run may be converted once more when it has gone on. `track` follows a run that is trained.
"""

from __future__ import annotations

import sys

from .run import load
from .trackers import STORES, guarded, history, parser


def main(words: list[str] | None = None) -> int:
    """Converts runs; the exit code is that of the program where a run can't be read."""
    options = parser("python -m rtc_lang.convert", "Writes runs into the stores of other programs.")
    options.add_argument("runs", nargs="+", metavar="RUN", help="the folder of a run, its name below `runs`, or @last")
    asked = options.parse_args(words)

    def convert() -> int:
        for named in asked.runs:
            run = load(named)
            store = STORES[asked.to](run, asked.project, asked.place, True)
            store.log(history(run))
            store.end(run)
            print(f"{run.name}: {store.told}")
        return 0

    return guarded(asked.to, convert)


if __name__ == "__main__":
    sys.exit(main())
