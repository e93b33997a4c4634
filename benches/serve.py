"""What the sides of PyTorch share: one JSON object per line comes in and goes out, as in src/protocol.rs.

The first line out says that all is imported.
"""

import json
import sys

import torch


def serve(threads, **makers):
    """Answers requests until told to quit. `makers` maps the request that makes a model to its class, whose methods answer the
    others.
    """
    torch.set_num_threads(threads)
    try:
        say(dict(mib=status("VmRSS:")))
        loaded = None
        for line in sys.stdin:
            request = json.loads(line)
            if request["do"] == "quit":
                break
            try:
                out, loaded = answer(request, loaded, makers)
            except Exception as error:  # the command reports it
                out = dict(error=f"{type(error).__name__}: {error}")
            say(out)
    except BrokenPipeError:
        pass  # the command is gone, and nobody waits for an answer


def answer(request, loaded, makers):
    """The answer to a request, and the model that is loaded from then on."""
    do = request.pop("do")
    if do in makers:
        loaded = makers[do](request)
        return loaded.made(), loaded
    if do == "memory":
        return dict(mib=status("VmHWM:")), loaded
    return getattr(loaded, do)(**request), loaded


def status(name):
    """A line of /proc/self/status in MiB."""
    with open("/proc/self/status") as lines:
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def say(message):
    print(json.dumps(message), flush=True)
