"""Stands in for `hq submit`: HyperQueue's Python package has its server and workers, and not the program.

Understands what rtc's launcher says, starts a server with two workers in a process of its own, submits a task per element of the array
to it, and stays until all have ended.
"""

import argparse
import os
import sys
from importlib.metadata import version

from hyperqueue import Job
from hyperqueue.cluster import LocalCluster, WorkerConfig


def submitted(words):
    parser = argparse.ArgumentParser(prog="hq submit")
    for option in ["array", "name", "cpus", "resource", "time-request", "stdout", "stderr"]:
        parser.add_argument(f"--{option}")
    at = words.index("--")
    return parser.parse_args(words[1:at]), words[at + 1 :]


def main():
    options, command = submitted(sys.argv[1:])
    last = int(options.array.removeprefix("1-"))
    print(f"HyperQueue {version('hyperqueue')}, {last} tasks", flush=True)
    if os.fork() > 0:
        return
    # The launcher waits until nobody has its pipes any more.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    with LocalCluster() as cluster:
        for _ in range(2):
            cluster.start_worker(WorkerConfig(cores=1))
        # The package counts tasks from 0, the program as the array says.
        job = Job(max_fails=None, name=options.name)
        job.program(["true"])
        for task in range(1, last + 1):
            log = [text.replace("%{TASK_ID}", str(task)) for text in (options.stdout, options.stderr)]
            job.program(command, stdout=log[0], stderr=log[1])
        client = cluster.client()
        client.wait_for_jobs([client.submit(job)], raise_on_error=False)


main()
