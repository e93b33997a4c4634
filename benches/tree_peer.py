"""The side of PyTorch for the table of lengths: models of the independent implementation of trees, run as it is told."""

import argparse
import sys
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--peers", required=True, help="the folder of rir_torch.py")
parser.add_argument("--threads", type=int, required=True)
args = parser.parse_args()
sys.dont_write_bytecode = True
sys.path.insert(0, args.peers)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import rir_torch as peer  # noqa: E402
from serve import serve  # noqa: E402


class Loaded:
    """A model with its optimiser and batches of one row."""

    def __init__(self, job):
        torch.manual_seed(0)
        self.model = peer.Classifier(peer.Spec(**job["peer"]))
        self.optimiser = peer.LookaheadRAdam(self.model.parameters(), lr=1e-3, decay=1e-2)
        pairs = [(torch.tensor(b["tokens"]), torch.tensor(b["labels"])) for b in job["batches"]]
        self.batches = [(t, torch.ones_like(t, dtype=torch.bool), labels) for t, labels in pairs]
        self.turn = 0

    def made(self):
        return dict()

    def next(self):
        self.turn += 1
        return self.batches[(self.turn - 1) % len(self.batches)]

    def steps(self, count):
        self.model.train()
        return dict(ms=[self.timed(self.step) for _ in range(count)])

    def step(self, tokens, keep, labels):
        F.cross_entropy(self.model(tokens, keep), labels).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def infer(self, count, rows):
        self.model.eval()
        with torch.inference_mode():
            return dict(ms=[self.timed(lambda tokens, keep, _: self.model(tokens, keep)) for _ in range(count)])

    def timed(self, run):
        batch = self.next()
        start = time.perf_counter()
        run(*batch)
        return 1e3 * (time.perf_counter() - start)


serve(args.threads, open=Loaded)
