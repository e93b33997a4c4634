"""The side of PyTorch: makes models of the independent implementation and runs them as it is told."""

import argparse
import sys
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--peers", required=True, help="the folder of recurrent_torch.py")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32")
args = parser.parse_args()
sys.dont_write_bytecode = True
sys.path.insert(0, args.peers)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402

import recurrent_torch as peer  # noqa: E402
from serve import serve  # noqa: E402

torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"


def number_types():
    """How the products of a run are computed."""
    return torch.autocast(args.device, dtype=torch.bfloat16, enabled=args.precision == "bf16")


def finished():
    """Waits for the device, so that a clock that is read then has seen its work."""
    if args.device == "cuda":
        torch.cuda.synchronize()


class PlainLayer(nn.Module):
    """Pre-norm attention and feed-forward, written as one would without a benchmark in mind."""

    def __init__(self, dim, heads, hidden, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.norm_a, self.norm_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        drop = self.p if self.training else 0.0
        heads = [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm_a(x)).chunk(3, -1)]
        mixed = F.scaled_dot_product_attention(*heads, dropout_p=drop).transpose(1, 2).flatten(-2)
        x = x + F.dropout(self.out(mixed), drop)
        return x + F.dropout(self.down(F.dropout(F.gelu(self.up(self.norm_f(x))), drop)), drop)


class Plain(nn.Module):
    """A transformer with learned positions and mean pooling; answers like the peer's model."""

    def __init__(self, s, length):
        super().__init__()
        self.s = s
        self.embed, self.position = nn.Embedding(s.vocab, s.dim), nn.Embedding(length, s.dim)
        self.layers = nn.ModuleList(PlainLayer(s.dim, s.heads, s.dff, s.p_drop) for _ in range(s.layers))
        self.norm, self.head = nn.LayerNorm(s.dim), nn.Linear(s.dim, s.classes)

    def forward(self, tokens, keep):
        x = F.dropout(self.embed(tokens) + self.position.weight[: tokens.shape[1]], self.s.p_drop, self.training)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1)), None, dict(used=None, ran=self.s.layers)

    def loss(self, logits, act, labels):
        return F.cross_entropy(logits, labels)


class Loaded:
    """A model with its optimiser and batches."""

    def __init__(self, job):
        start = time.perf_counter()
        torch.manual_seed(job["seed"])
        spec = peer.Spec.build(**job["spec"], halt_gain=job["halt_gain"], halt_bias=job["halt_bias"])
        length = len(job["batches"][0]["tokens"][0])
        self.model = Plain(spec, length) if job["plain"] else peer.Model(spec)
        with torch.no_grad():
            self.model.embed.weight.mul_(job["embed_gain"])
        self.model.to(args.device)
        if job["compile"]:
            # Training, inference and single rows are compiled each for themselves; past the limit torch stays eager.
            torch._dynamo.config.recompile_limit = 64
            self.model.compile() if job["plain"] else peer.compile_cells(self.model)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=job["learning_rate"], betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
        self.ms = 1e3 * (time.perf_counter() - start)
        if job["weights"] and not job["plain"] and not job["compile"]:
            save_file({k: v.detach().cpu().clone().contiguous() for k, v in self.model.state_dict().items()}, job["weights"])
        pairs = [[torch.tensor(b[k], device=args.device) for k in ("tokens", "labels")] for b in job["batches"]]
        self.batches = [(t, torch.ones_like(t, dtype=torch.bool), labels) for t, labels in pairs]
        self.turn = 0

    def made(self):
        return dict(ms=[self.ms])

    def next(self, rows=None):
        """The next batch, or its first rows."""
        self.turn += 1
        return tuple(t[:rows] for t in self.batches[(self.turn - 1) % len(self.batches)])

    def loss(self):
        self.model.eval()
        losses = []
        with torch.no_grad(), number_types():
            for tokens, keep, labels in self.batches:
                logits, act, _ = self.model(tokens, keep)
                losses.append(float(self.model.loss(logits, act, labels)))
        return dict(losses=losses)

    def steps(self, count):
        self.model.train()
        seen = Seen()
        for _ in range(count):
            tokens, keep, labels = self.next()
            finished()
            start = time.perf_counter()
            with number_types():
                logits, act, info = self.model(tokens, keep)
                loss = self.model.loss(logits, act, labels)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            seen.add(start, info)
        return seen.answer()

    def infer(self, count, rows):
        self.model.eval()
        seen = Seen()
        with torch.inference_mode(), number_types():
            for _ in range(count):
                tokens, keep, _ = self.next(rows)
                finished()
                start = time.perf_counter()
                _, _, info = self.model(tokens, keep)
                seen.add(start, info)
        return seen.answer()


class Seen:
    """Times of runs, and how deep they went."""

    def __init__(self):
        self.ms, self.depths, self.runs = [], [], []

    def add(self, start, info):
        finished()
        self.ms.append(1e3 * (time.perf_counter() - start))
        if info["used"] is not None:
            used = info["used"] if isinstance(info["used"], list) else [info["used"]]
            self.depths.append(sum(float(u.double().mean()) for u in used) / len(used))
            self.runs.append(info["ran"] / len(used))

    def answer(self):
        mean = lambda values: sum(values) / len(values) if values else None  # noqa: E731
        return dict(ms=self.ms, depth=mean(self.depths), runs=mean(self.runs))


serve(args.threads, load=Loaded)
