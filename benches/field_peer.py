"""The side of PyTorch for the table of the field's looped models: batched programs of their equations, with the weights that rtc has drawn.

The weights have the names that they have in the specs. All rows have one length, so nothing is padded.
"""

import argparse
import math
import time
from functools import partial

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, required=True)
args = parser.parse_args()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

from serve import serve  # noqa: E402

HEADS = 4


class At:
    """The weights below a place, and what layers make of them."""

    def __init__(self, weights, place=""):
        self.weights, self.place = weights, place

    def __getitem__(self, name):
        return self.weights[self.place + name]

    def at(self, place):
        return At(self.weights, f"{self.place}{place}.")

    def linear(self, name, x):
        return F.linear(x, self[name + ".weight"], self.weights.get(f"{self.place}{name}.bias"))

    def rms(self, name, x):
        return F.rms_norm(x, x.shape[-1:], self[name + ".weight"], 1e-6)

    def layer_norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self[name + ".weight"], self.weights.get(f"{self.place}{name}.bias"), 1e-5)

    def swiglu(self, x):
        return self.linear("down", F.silu(self.linear("gate", x)) * self.linear("up", x))

    def attention(self, x, turn, source=None, mask=None, causal=False):
        """Softmax attention of `x` to `source`, whose keys `turn` has not yet turned."""
        source = x if source is None else source
        split = lambda name, x: self.linear(name, x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        q, k, v = turn(split("query", x), 1), turn(split("key", source), -1), split("value", source)
        read = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return self.linear("output", read.transpose(1, 2).flatten(-2))


class Rope:
    """Rotary positions 0, 1, .. of `length` tokens, repeated `repeats` times; `halves` turns channels (i, i + e/2), else neighbours."""

    def __init__(self, length, width, halves, grow=False):
        e = width // HEADS
        i = torch.arange(e // 2, dtype=torch.float64)
        position = torch.arange(length, dtype=torch.float64)[:, None]
        angle = position * 10000.0 ** (-2 * i / e)
        growth = ((2 * i / e + 0.4) / 1.4) ** (position / 512) if grow else torch.ones_like(angle)
        self.halves = halves
        self.tables = {sign: ((angle.cos() * growth**sign).float(), (angle.sin() * growth**sign).float()) for sign in (1, -1)}

    def __call__(self, x, sign):
        cos, sin = self.tables[sign]
        repeats = x.shape[-2] // cos.shape[0]
        cos, sin = cos.repeat(repeats, 1), sin.repeat(repeats, 1)
        if self.halves:
            a, b = x.chunk(2, -1)
            return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def each_token(logits, labels):
    """The loss of every token."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)


def ouro(p, tokens, labels):
    x = F.embedding(tokens, p["embed.table"])
    turn, loop = Rope(x.shape[1], x.shape[2], True), p.at("loop")
    left, loss, steps = torch.ones(tokens.shape), 0.0, 4
    for step in range(steps):
        for n in range(2):
            at = loop.at(f"stack.{n}.sandwiched")
            middle = x + at.rms("norm_2", at.at("att").attention(at.rms("norm", x), turn, causal=True))
            x = middle + at.rms("norm_4", at.at("mlp").swiglu(at.rms("norm_3", middle)))
        x = loop.rms("h", x)
        hazard = torch.sigmoid(loop.linear("number", x)[..., 0])
        q = left if step == steps - 1 else left * hazard
        left = left - q
        loss = loss + (q * each_token(p.linear("head.output", x), labels)).mean() + 0.1 * (q * q.log()).mean()
    return loss


def cotformer(p, tokens, labels):
    x = F.embedding(tokens, p["embed.table"])
    n, turn = x.shape[1], Rope(x.shape[1], x.shape[2], False)
    network = lambda at, x: at.linear("down", F.gelu(at.linear("up", x)))

    def single(at, x):
        x = x + at.at("read").attention(at.layer_norm("norm", x), turn, causal=True)
        return x + network(at, at.layer_norm("norm_2", x))

    x = single(p.at("single"), x)
    loop, history, steps = p.at("loop"), [], 5
    past = torch.ones(n, n, dtype=torch.bool).tril()
    for step in range(steps):
        x = x + (steps - 1 - step) * loop["learn"]
        normed = loop.layer_norm("normed", x)
        history.append(normed)
        source, mask = torch.cat(history, 1), past.repeat(1, step + 1)
        x = x + loop.at("attention").attention(normed, turn, source, mask)
        x = loop.layer_norm("state", x + network(loop, loop.layer_norm("normed_2", x)))
    x = p.layer_norm("norm.norm", single(p.at("single_2"), x))
    return each_token(x @ p["embed.table"].T, labels).mean()


def framed(p, tokens):
    """The vectors of the tokens between START and END."""
    x = F.embedding(tokens, p["embed.table"])
    ends = [p[name].expand(len(tokens), 1, -1) for name in ("embed.start", "embed.end")]
    return torch.cat((ends[0], x, ends[1]), 1)


def universal(at, x, turn):
    """The layer of the Universal Transformer, with a norm in front of each branch."""
    x = x + at.at("self").attention(at.layer_norm("self.norm", x), turn)
    hidden = F.gelu(at.linear("feedforward.up", at.layer_norm("feedforward.norm", x)))
    return x + at.linear("feedforward.down", hidden)


def classes(p, pooled):
    return p.linear("head.output", F.relu(p.linear("head.hidden", pooled)))


def pondernet(p, tokens, labels):
    x = framed(p, tokens)
    turn, loop = Rope(x.shape[1], x.shape[2], False, grow=True), p.at("loop")
    left, loss, steps, prior = torch.ones(len(tokens)), 0.0, 8, 0.2
    for step in range(steps):
        x = universal(loop, x, turn)
        pooled = x.mean(1)
        q = left if step == steps - 1 else left * torch.sigmoid(loop.linear("number", pooled)[:, 0])
        left = left - q
        expected = math.log(prior / (1 - (1 - prior) ** steps)) + step * math.log(1 - prior)
        loss = loss + (q * F.cross_entropy(classes(p, pooled), labels, reduction="none")).mean()
        loss = loss + 0.01 * (q * (q.log() - expected)).mean()
    return loss


def act(p, tokens, labels):
    x = framed(p, tokens)
    turn, loop = Rope(x.shape[1], x.shape[2], False, grow=True), p.at("loop")
    mass, cost, mixture, steps = torch.zeros(x.shape[:2]), torch.zeros(x.shape[:2]), torch.zeros_like(x), 8
    live = torch.ones(x.shape[:2], dtype=torch.bool)
    for step in range(steps):
        x = torch.where(live[..., None], universal(loop, x, turn), x)
        q = torch.sigmoid(loop.linear("number", x)[..., 0])
        full = (mass + q >= 0.99) if step < steps - 1 else torch.ones_like(live)
        weight = torch.where(full, 1 - mass, q) * live
        mixture = mixture + weight[..., None] * x
        cost = cost + live * (1 + torch.where(full, 1 - mass, torch.zeros_like(mass)))
        mass = torch.where(live, mass + q, mass)
        live = live & ~full
        if not live.any():
            break
    return F.cross_entropy(classes(p, mixture.mean(1)), labels) + 0.01 * cost.mean()


def plain_rms(x):
    return F.rms_norm(x, x.shape[-1:], None, 1e-5)


def trm(p, tokens, labels):
    e = F.embedding(tokens, p["embed.table"]) * math.sqrt(p["embed.table"].shape[1])
    turn = Rope(e.shape[1], e.shape[2], True)

    def net(x):
        for name in ("net.first", "net.second"):
            at = p.at(name)
            x = plain_rms(x + at.at("read").attention(x, turn))
            x = plain_rms(x + at.at("network").swiglu(x))
        return x

    def round_(y, z):
        for _ in range(2):
            z = net(z + y + e)
        return net(y + z), z

    y, z = p["start_y"].detach().expand_as(e), p["start_z"].detach().expand_as(e)
    loss = 0.0
    for _ in range(4):
        with torch.no_grad():
            y, z = round_(y, z)
        y, z = round_(y, z)
        logits = p.linear("head.output", y)
        grown = torch.where(logits < 0, 1 / (1 - logits), logits + 1)
        share = (grown / grown.sum(-1, keepdim=True)).log()
        loss = loss - share.gather(-1, labels[..., None])[..., 0].mean(1).mean()
        right = (logits.argmax(-1) == labels).all(1).float()
        sure = p.linear("loop.sure", y[:, 0])[:, 0]
        loss = loss + 0.5 * F.binary_cross_entropy_with_logits(sure, right)
        y, z = y.detach(), z.detach()
    return loss


def loop_index(p, tokens, labels):
    x = F.embedding(tokens, p["embed.table"])
    turn, loop = Rope(x.shape[1], x.shape[2], True), p.at("loop")
    for step in range(6):
        x = x + loop["learn"][step]
        x = x + loop.at("read").attention(loop.rms("normed", x), turn, causal=True)
        x = x + loop.at("network").swiglu(loop.rms("normed_2", x))
    return each_token(p.linear("head.output", p.rms("norm.norm", x)), labels).mean()


def mor_experts(p, tokens, labels, fewer=1):
    """Mixture of recursions by masks: every step computes all tokens, and those that are not chosen stay as they were."""
    x = F.embedding(tokens, p["embed.table"])
    rows, n = tokens.shape
    turn, past, steps = Rope(n, x.shape[2], True), torch.ones(n, n, dtype=torch.bool).tril(), 3
    own = torch.eye(n, dtype=torch.bool)

    def single(at, x, mask=None):
        x = x + at.at("read").attention(at.rms("norm", x), turn, mask=mask, causal=mask is None)
        return x + at.swiglu(at.rms("norm_2", x))

    x, live, loss = single(p.at("single"), x), torch.ones(rows, n, dtype=torch.bool), 0.0
    for step in range(steps):
        score = F.linear(x, p["loop.linear.weight"][step])[..., 0]
        best = score.masked_fill(~live, -math.inf).topk(max(1, n * (steps - step) // (fewer * steps)))
        chosen = torch.zeros_like(live).scatter(1, best.indices, True)
        told = live * (F.softplus(score) - torch.where(chosen, score, torch.zeros_like(score)))
        loss = loss + 0.001 * (told.sum(1) / live.sum(1)).mean()
        read = single(p.at("core"), x, ((chosen[:, None] | own) & past)[:, None])
        x = torch.where(chosen[..., None], x + 0.1 * torch.sigmoid(score)[..., None] * read, x)
        live = chosen
    x = p.rms("norm.norm", single(p.at("single_2"), x))
    return loss + each_token(p.linear("head.output", x), labels).mean()


MODELS = {
    "ouro": ouro,
    "cotformer": cotformer,
    "pondernet:all_steps": pondernet,
    "act": act,
    "trm": trm,
    "loop_index:embedding": loop_index,
    "mor_experts": mor_experts,
    "mor_experts:half": partial(mor_experts, fewer=2),
    "mor_experts:quarter": partial(mor_experts, fewer=4),
}


class Loaded:
    """A model with its optimiser and batches."""

    def __init__(self, job):
        self.loss_of = MODELS[job["name"]]
        weights = load_file(job["weights"])
        for weight in weights.values():
            weight.requires_grad_()
        self.weights, self.turn = At(weights), 0
        self.optimiser = torch.optim.AdamW(weights.values(), lr=1e-4, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
        self.batches = []
        for batch in job["batches"]:
            tokens, labels = torch.tensor(batch["tokens"]), torch.tensor(batch["labels"])
            self.batches.append((tokens, labels.view_as(tokens) if labels.numel() > len(tokens) else labels))

    def made(self):
        return dict()

    def loss(self):
        return dict(losses=[float(self.loss_of(self.weights, *batch).detach()) for batch in self.batches])

    def steps(self, count):
        return dict(ms=[self.step() for _ in range(count)])

    def step(self):
        batch = self.batches[self.turn % len(self.batches)]
        self.turn += 1
        start = time.perf_counter()
        loss = self.loss_of(self.weights, *batch)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return 1e3 * (time.perf_counter() - start)


serve(args.threads, field=Loaded)
