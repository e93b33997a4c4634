"""Continuous recursion and ordered memory in PyTorch, from their definitions, on padded batches with masks.

    python reference.py small > composition.json     the cases beside this file
    python reference.py large > /tmp/large.json      rows of 1 to 137 elements in chunks of 3 to 30; RTC_COMPOSITION names it

Double precision. A weight is 0.5 sin(0.7 i + p) at flat index i, with p the number of its array (from 1) in the order below; gains of
norms are 1 + a fifth of that, their biases a fifth of that. The loss is the sum of all results times sin(0.3 k), k their flat index.
The one difference to the published code: the largest score of continuous recursion is that of a row and not that of the batch.
"""

import json
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
P = {}


def arrays(shapes):
    for p, (name, shape) in enumerate(shapes.items(), 1):
        i = torch.arange(torch.tensor(shape).prod())
        wave = 0.5 * torch.sin(0.7 * i + p)
        if "norm" in name:
            wave = 0.2 * wave + (1.0 if name.endswith("weight") else 0.0)
        P[name] = wave.reshape(shape).requires_grad_()


def linear(name, x):
    return x @ P[name + ".weight"].T + P[name + ".bias"]


def norm(name, x):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], P[name + ".weight"], P[name + ".bias"], 1e-5)


def gelu(x):
    return torch.nn.functional.gelu(x)


def cell(at, left, right):
    y = linear(at + ".down", gelu(linear(at + ".up", torch.cat([left, right], -1))))
    a, b, c, new = y.chunk(4, -1)
    return norm(at + ".norm", a.sigmoid() * left + b.sigmoid() * right + c.sigmoid() * new)


def leaf(at, x):
    return norm(at + ".norm", linear(at + ".linear", x))


def right_weights(e, mask):
    """[N, S, S]: what position i takes of position j on its right."""
    before = torch.cumsum(e, 1)
    between = before[:, None, :] - e[:, None, :] - before[:, :, None]
    weights = torch.minimum(e[:, None, :], (1 - between).clamp(min=0))
    later = torch.ones(e.shape[1], e.shape[1]).triu(1)
    return weights * later * mask[:, None, :]


def continuous(at, x, mask, own_leaf):
    n, s, d = x.shape
    count = mask.sum(1).long()
    size = s + 2
    h = torch.zeros(n, size, d)
    h = torch.cat([P[at + ".start"].expand(n, 1, d), x, torch.zeros(n, 1, d)], 1)
    place = torch.arange(size)[None]
    is_end = (place == count[:, None] + 1).to(x.dtype)
    h = h * (1 - is_end)[..., None] + is_end[..., None] * P[at + ".end"]
    real = (place <= count[:, None] + 1).to(x.dtype)
    if own_leaf:
        h = leaf(at + ".leaf", h)
    h = h * real[..., None]
    e = real.clone()
    inner = ((place >= 1) & (place < count[:, None])).to(x.dtype)
    for step in range(s):
        going = ((e > 0.1).sum(1) - 2 > 1) & (step < count)
        if not going.any():
            break
        right = right_weights(e, real)
        left = right_weights(e.flip(1), real.flip(1)).flip(1).flip(2)
        l, r = left @ h, right @ h
        window = torch.cat([left @ l, l, h, r, right @ r], -1)
        score = linear(at + ".score.output", gelu(linear(at + ".score.hidden", window)))[..., 0]
        most = torch.where(real > 0, score, torch.tensor(-1e30)).amax(1, keepdim=True).clamp(min=0)
        force = torch.exp(score - most) * inner
        beside = (left @ force[..., None] + right @ force[..., None])[..., 0]
        c = inner * force / (force + torch.exp(-most) + beside + 4e-8)
        u = left @ c[..., None]
        h1 = u * cell(at + ".grc", l, h) + (1 - u) * h
        e1 = e * (1 - c)
        keep = going[:, None].to(x.dtype)
        h = (keep[..., None] * h1 + (1 - keep[..., None]) * h) * real[..., None]
        e = (keep * e1 + (1 - keep) * e) * real
    return h[torch.arange(n), count]


def ordered_memory(at, x, mask, slots):
    n, s, d = x.shape
    x = norm(at + ".grc.norm", linear(at + ".input", x))
    memory, candidates, p = torch.zeros(n, slots, d), torch.zeros(n, slots, d), None
    out = torch.zeros(n, d)
    for t in range(s):
        now = x[:, t]
        query = norm(at + ".query.norm", linear(at + ".query.linear", now))
        keys = norm(at + ".key.norm", linear(at + ".key.linear", candidates))
        beta = linear(at + ".score", gelu(query[:, None] + keys))[..., 0] / d**0.5
        if p is None:
            p, below, above = torch.zeros(n, slots), torch.zeros(n, slots), torch.ones(n, slots)
        else:
            allowed = torch.cat([torch.cumsum(p, 1)[:, 1:], torch.ones(n, 1)], 1)
            allowed = torch.where(allowed < 1e-5, torch.zeros(()), allowed)
            p = torch.exp(beta - beta.amax(1, keepdim=True)) * allowed
            p = p / p.sum(1, keepdim=True)
            below, above = torch.cumsum(p, 1), torch.cumsum(p.flip(1), 1).flip(1)
        memory = memory * (1 - above)[..., None] + candidates * above[..., None]
        h, new = now, []
        for i in range(slots):
            h = (1 - below[:, i, None]) * now + below[:, i, None] * cell(at + ".grc", h, memory[:, i])
            new.append(h)
        candidates = torch.stack(new, 1)
        last = (mask.sum(1).long() == t + 1).to(x.dtype)[:, None]
        out = out + last * h
    return out


def fold(x, mask, k, inner):
    """Chunks by the padded width, the last level with up to half a chunk more."""
    while x.shape[1] > 1:
        n, s, d = x.shape
        chunks, width = (-(-s // k), k) if s >= k + k // 2 else (1, s)
        pad = chunks * width - s
        x = torch.cat([x, torch.zeros(n, pad, d)], 1).reshape(n * chunks, width, d)
        mask = torch.cat([mask, torch.zeros(n, pad)], 1).reshape(n * chunks, width)
        some = mask[:, 0] > 0
        out = torch.zeros(n * chunks, d)
        out[some] = inner(x[some], mask[some])
        x, mask = out.reshape(n, chunks, d), mask[:, 0].reshape(n, chunks)
    return x[:, 0]


def shapes(kind, at, d, hidden, nested):
    lin = lambda name, o, i: {name + ".weight": (o, i), name + ".bias": (o,)}
    nrm = lambda name: {name + ".weight": (d,), name + ".bias": (d,)}
    out = {}
    if nested:
        out |= lin("balanced.leaf.linear", d, d) | nrm("balanced.leaf.norm")
    if kind == "continuous":
        if not nested:
            out |= lin(at + ".leaf.linear", d, d) | nrm(at + ".leaf.norm")
        out |= {at + ".start": (d,), at + ".end": (d,)}
        out |= lin(at + ".score.hidden", d, 5 * d) | lin(at + ".score.output", 1, d)
    else:
        out |= lin(at + ".input", d, d)
        out |= lin(at + ".query.linear", d, d) | nrm(at + ".query.norm")
        out |= lin(at + ".key.linear", d, d) | nrm(at + ".key.norm") | lin(at + ".score", 1, d)
    return out | lin(at + ".grc.up", hidden, 2 * d) | lin(at + ".grc.down", 4 * d, hidden) | nrm(at + ".grc.norm")


def case(kind, lengths, arity, d, hidden, slots):
    P.clear()
    at = "balanced." + kind if arity else kind
    arrays(shapes(kind, at, d, hidden, arity))
    n, s = len(lengths), max(lengths)
    x = torch.sin(0.7 * torch.arange(n * s * d) + 0.4).reshape(n, s, d)
    mask = (torch.arange(s)[None] < torch.tensor(lengths)[:, None]).to(x.dtype)
    x = (x * mask[..., None]).requires_grad_()
    if kind == "continuous":
        inner = lambda x, mask: continuous(at, x, mask, not arity)
    else:
        inner = lambda x, mask: ordered_memory(at, x, mask, slots)
    out = fold(leaf("balanced.leaf", x), mask, arity, inner) if arity else inner(x, mask)
    (out * torch.sin(0.3 * torch.arange(out.numel())).reshape(out.shape)).sum().backward()
    grads = {name: p.grad.flatten().tolist() for name, p in P.items()}
    return {
        "kind": kind, "lengths": lengths, "arity": arity, "width": d, "hidden": hidden, "slots": slots,
        "params": list(P), "x": x.detach().flatten().tolist(), "out": out.flatten().tolist(),
        "dx": x.grad.flatten().tolist(), "grads": grads,
    }


def main():
    if sys.argv[1:] == ["large"]:
        lengths = [137, 1, 64, 2, 30, 45, 44, 9]
        plans = [(lengths, arity, 6, 11, 4) for arity in (3, 5, 10, 30)] + [([40, 1, 23, 2, 7], 0, 6, 11, 5)]
    else:
        plans = [([7, 4, 1, 12], 0, 4, 6, 3), ([7, 4, 1, 12], 3, 4, 6, 3)]
    print(json.dumps([case(kind, *plan) for kind in ("continuous", "ordered_memory") for plan in plans]))


main()
