"""Models whose attention reads pairs of positions, in PyTorch, in double precision, from the equations of their papers.

Each line of standard input is a request in JSON, each line of standard output its answer: logits, loss and gradients.
"""

import json
import math
import sys

import torch
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)


class Weights:
    """Weights by name; each must be read."""

    def __init__(self, numbers, sizes):
        self.all = {
            name: torch.tensor(numbers[name]).reshape(sizes[name]).requires_grad_() for name in numbers
        }
        self.read = set()

    def __getitem__(self, name):
        if name not in self.all:
            raise SystemExit(f"no {name} among {', '.join(self.all)}")
        self.read.add(name)
        return self.all[name]

    def linear(self, x, name):
        bias = self[f"{name}.bias"] if f"{name}.bias" in self.all else None
        return F.linear(x, self[f"{name}.weight"], bias)

    def layer_norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self[f"{name}.weight"], self[f"{name}.bias"], 1e-5)

    def rms_norm(self, x, name):
        return F.rms_norm(x, x.shape[-1:], self[f"{name}.weight"], 1e-6)

    def swiglu(self, x, name, gate="gate"):
        inner = F.silu(self.linear(x, f"{name}.{gate}")) * self.linear(x, f"{name}.up")
        return self.linear(inner, f"{name}.down")

    def attention(self, x, name, mask, bias=0.0, heads=2, rotate=None, score=lambda s: s):
        """Heads side by side; `mask` and `bias` are `[heads or 1, queries, keys or 1]`, and `score` says what scores become."""
        def split(which):
            return self.linear(x, f"{name}.{which}").unflatten(-1, (heads, -1)).transpose(0, 1)
        q, k, v = split("query"), split("key"), split("value")
        if rotate:
            q, k = rotate(q), rotate(k)
        scores = score(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5) + bias
        mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return self.linear(mixed.transpose(0, 1).flatten(1), f"{name}.output")


def rope(x, base=10000.0):
    """Neighbouring channels of a head turn together (Su et al. 2021)."""
    n, width = x.shape[1:]
    rates = base ** (-torch.arange(0, width, 2) / width)
    turn = torch.polar(torch.ones(n, width // 2), torch.outer(torch.arange(n).double(), rates))
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turn).flatten(-2)


def places(n):
    return torch.arange(n)[:, None], torch.arange(n)[None, :]


def past(n):
    i, j = places(n)
    return (j <= i)[None]


def alibi(n, heads=2):
    """Press et al. 2022: slopes 2^(-8 h / heads)."""
    i, j = places(n)
    slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
    return -slopes[:, None, None] * (i - j)


def fox(w, x, given, gates=2):
    n = len(x)
    for layer in range(2):
        at = f"stack.{layer}"
        h = w.rms_norm(x, f"{at}.norm")
        log_forget = F.logsigmoid(w.linear(h, f"{at}.gate"))
        # log F_ij, the sum over the gates from j + 1 to i, term by term.
        none = torch.zeros(gates)
        rows = [[log_forget[j + 1:i + 1].sum(0) if j <= i else none for j in range(n)] for i in range(n)]
        total = torch.stack([torch.stack(row) for row in rows])
        x = x + w.attention(h, f"{at}.attention", past(n), total.permute(2, 0, 1))
        x = x + w.swiglu(w.rms_norm(x, f"{at}.norm_2"), at, "gate_2")
    return x


def streaming(w, x, given, sees, by):
    for layer in range(2):
        at = f"stack.{layer}.state"
        read = x + w.attention(w.layer_norm(x, f"{at}.norm"), f"{at}.read", sees(len(x)), by(w, at, len(x)))
        x = read + w.swiglu(w.layer_norm(read, f"{at}.norm_2"), at)
    return x


def sinks(first, window):
    def sees(n):
        keys = [[j <= i and (i - j < window or j < first) for j in range(n)] for i in range(n)]
        return torch.tensor(keys)[None]
    return sees


def spans(w, at, n, most=256, ramp=16):
    """Sukhbaatar et al. 2019: weights times clamp((R + z - x) / R, 0, 1)."""
    i, j = places(n)
    z = most * w[f"{at}.read.bias"].reshape(-1)
    return ((ramp + z[:, None, None] - (i - j)) / ramp).clamp(1e-30, 1).log()


def cells(n, sees):
    """Whether two cells of a grid of 9 columns see each other, from row and column of both."""
    return torch.tensor([[sees(i // 9, i % 9, j // 9, j % 9) for j in range(n)] for i in range(n)])


def grid(w, x, given, seen, heads):
    start, masks = x, torch.stack([cells(len(x), sees) for sees in seen])
    for _ in range(8):
        x = x + start
        for name in ("first", "second"):
            x = w.rms_norm(x + w.attention(x, f"{name}.read", masks, heads=heads, rotate=rope), f"{name}.middle")
            x = w.rms_norm(x + w.swiglu(x, name), f"{name}.norm")
    return x


def packed(w, x, given, sees, heads=2):
    for layer in range(2):
        at = f"stack.{layer}.state"
        mask = torch.stack([sees(*places(len(x)), given["document"], head) for head in range(heads)]) & past(len(x))
        read = x + w.attention(w.layer_norm(x, f"{at}.norm"), f"{at}.read", mask, heads=heads, rotate=rope)
        x = read + w.swiglu(w.layer_norm(read, f"{at}.norm_2"), at)
    return x


def same(i, j, document, head):
    return document[i] == document[j]


def functions(w, x, given):
    i, j = places(len(x))
    distance, learned = (i - j).abs(), w["attention.score"].reshape(-1)[:, None, None]
    mask = torch.stack([distance <= 3, distance <= 30]) & past(len(x))
    def score(s):
        return F.softplus(s) + 0.1 * F.silu(s - learned) + 0.2 * F.relu(3 - distance.double())
    x = x + w.attention(w.layer_norm(x, "norm"), "attention", mask, score=score)
    c = w.linear(x, "c")[:, 0]
    query, key = c[:, None], c[None, :]
    mask = torch.stack([past(len(x))[0], (key < 0.5) & past(len(x))[0] | (i == j)])
    bias = torch.where(key > 0, F.relu(query) - key.abs(), -(1 + distance.double()).rsqrt() * query.sign())
    learned = w["attention_2.bias"].reshape(-1)[:, None, None]
    bias = bias + torch.lerp(learned.expand(-1, *bias.shape), query.expand(2, *bias.shape), key.sigmoid().expand(2, *bias.shape))
    return x + w.attention(w.layer_norm(x, "norm_2"), "attention_2", mask, bias)


def widths(w, x, given, reach=5):
    """Ma et al. 2022 (MEGA), Section 3.3: values wider than queries and keys, and a number per distance; then narrower values."""
    def read(n, heads, key_heads, bias, mask, turn):
        q, k, v = (w.linear(x, f"{which}{n}") for which in ("query", "key", "value"))
        q, k, v = (y.unflatten(-1, (count, -1)).transpose(0, 1) for y, count in ((q, heads), (k, key_heads), (v, key_heads)))
        q, k = turn(q), turn(k)
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + bias
        mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return x + w.linear(mixed.transpose(0, 1).flatten(1), f"output{n}")
    i, j = places(len(x))
    bias = w["wide.bias"][(j - i).clamp(1 - reach, 0) + reach - 1]
    x = read("", 2, 1, bias, past(len(x)), lambda y: y)
    return read("_2", 2, 2, 0.0, past(len(x)), rope)


def at_places(w, name, queries, keys, at, of, score, mask):
    """Attention of queries at the places `at` to keys at the places `of`; `score` and `mask` are told places and heads."""
    heads = 2
    def split(x, which):
        return w.linear(x, f"{name}.{which}").unflatten(-1, (heads, -1)).transpose(0, 1)
    q, k, v = split(queries, "query"), split(keys, "key"), split(keys, "value")
    scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
    rows = []
    for head in range(heads):
        for n, i in enumerate(at):
            seen = [m for m, j in enumerate(of) if mask(i, j, head)]
            by = [score(scores[head, n, m], i, of[m], head) for m in seen]
            rows.append(torch.stack(by).softmax(0) @ v[head, seen] if seen else torch.zeros_like(v[head, 0]))
    mixed = torch.stack(rows).unflatten(0, (heads, len(at))).transpose(0, 1).flatten(1)
    return w.linear(mixed, f"{name}.output")


def picked(w, x, given):
    n = len(x)
    def near(x, c, at, number):
        learned, h = w[f"attention{number}.bias"], w.layer_norm(x[at], f"norm{number}")
        return at_places(
            w, f"attention{number}", h, h, at, at,
            lambda s, i, j, head: s + 0.3 * c[i] - c[j] + learned[head, min(i - j, 4)] / (i + 1),
            lambda i, j, head: j <= i and (i - j < 5 or i % 3 == j % 3),
        )
    def added(x, at, more):
        return x.index_add(0, torch.tensor(at, dtype=torch.long), more) if at else x
    c = w.linear(x, "c")[:, 0]
    open = [i for i in range(n) if c[i] > -0.3]
    x = added(x, open, near(x, c, open, "") if open else None)
    d = w.linear(x, "d")[:, 0]
    both = [i for i in open if d[i] < 0.3]
    x = added(x, both, near(x, d, both, "_2") if both else None)
    low, h, learned = [i for i in range(n) if d[i] < 0.3], w.layer_norm(x, "h"), w["attention_3.score"].reshape(-1)
    more = at_places(
        w, "attention_3", h[low], h, low, range(n),
        lambda s, i, j, head: s * (1 + 0.1 * head) + d[j] - learned[head] * math.log(1 + i - j),
        lambda i, j, head: j <= i and (i - j < 7 or d[j] + 0.05 < d[i]),
    ) if low else None
    return added(x, low, more)


def picked_past(w, x, given):
    n = len(x)
    c = w.linear(x, "c")[:, 0]
    def read(x, at, prefix, name, score, mask, stop=lambda i, j: False, turn=lambda y, at: y):
        if not at:
            return x
        h = w.layer_norm(x[at], f"{prefix}norm")
        def split(which, h=h):
            return w.linear(h, f"{prefix}{name}.{which}").unflatten(-1, (2, -1)).transpose(0, 1)
        q, k, v = turn(split("query"), at), turn(split("key"), at), split("value")
        stopped_k, stopped_v = turn(split("key", h.detach()), at), split("value", h.detach())
        rows = []
        for head in range(2):
            for a, i in enumerate(at):
                seen = [b for b, j in enumerate(at) if mask(i, j)]
                cut = [stop(i, at[b]) for b in seen]
                # Gradients go into the maps of keys and values, and not into their input.
                keys = torch.stack([(stopped_k if stops else k)[head, b] for b, stops in zip(seen, cut)])
                values = torch.stack([(stopped_v if stops else v)[head, b] for b, stops in zip(seen, cut)])
                by = (keys * q[head, a]).sum(-1) / q.shape[-1] ** 0.5
                by = by + torch.stack([torch.as_tensor(score(i, at[b])) for b in seen])
                rows.append(by.softmax(0) @ values)
        mixed = torch.stack(rows).unflatten(0, (2, len(at))).transpose(0, 1).flatten(1)
        return x.index_add(0, torch.tensor(at), w.linear(mixed, f"{prefix}{name}.output"))
    for step in range(2):
        open = [i for i in range(n) if c[i] > step - 0.5]
        x = read(
            x, open, "loop.", "attention", lambda i, j: c[j] * (i - j) / n, lambda i, j: j <= i,
            lambda i, j: i - j > 3 and i % 2 == 0,
        )
    best = sorted(sorted(range(n), key=lambda i: (-c[i].item(), i))[:max(1, n // 2)])
    def turn(y, at):
        whole = y.new_zeros(y.shape[0], n, y.shape[-1]).index_copy(1, torch.tensor(at), y)
        return rope(whole)[:, at]
    return read(x, best, "", "attention", lambda i, j: 0.0, lambda i, j: i // 4 == j // 4 or i + j == n - 1, turn=turn)


def histories(w, x, given):
    n = len(x)
    at, kept = list(range(n)), []
    for step in range(3):
        h = w.layer_norm(x, "loop.h")
        c, table = w.linear(h, "loop.c")[:, 0], w["loop.attention.bias"]
        kept.append(h)
        x = x + at_places(
            w, "loop.attention", h, torch.cat(kept), at, at * len(kept),
            lambda s, i, j, head: s + table[head, min(i - j, 3)] * c[j] - c[i] + 0.1 * step * head,
            lambda i, j, head: j <= i and (i - j < 6 or c[i] + 0.05 < c[j]),
        )
    kept = []
    for step in range(2):
        h, learned = w.layer_norm(x, "loop_2.h"), w["loop_2.attention.score"].reshape(-1)
        kept.append(h)
        x = x + at_places(
            w, "loop_2.attention", h, torch.cat(kept), at, at * len(kept),
            lambda s, i, j, head: 3 * torch.tanh(s / 3) + learned[head] * math.log(1 + i - j),
            lambda i, j, head: j <= i,
        )
    return x


def earlier_blocks(q, k, block, of):
    """Which keys of earlier blocks the queries `[positions, width]` of a head read: of the `of` blocks whose mean keys match best (Lu et al.
    2025, equations 5 and 6)."""
    reads = torch.zeros(len(q), len(q), dtype=torch.bool)
    for t in range(len(q)):
        means = [k[b * block:(b + 1) * block].mean(0) for b in range(t // block)]
        match = sorted(range(len(means)), key=lambda b: -(q[t] @ means[b]).item())
        for b in match[:of]:
            reads[t, b * block:(b + 1) * block] = True
    return reads


def moba(w, x, given, reads, block=16, heads=2):
    i, j = places(len(x))
    own = i // block == j // block
    for layer in range(2):
        at = f"stack.{layer}"
        h = w.rms_norm(x, f"{at}.norm")
        q, k, v = (part.unflatten(-1, (heads, -1)).transpose(0, 1) for part in w.linear(h, f"{at}.maps").chunk(3, -1))
        mask = torch.stack([own | reads(q[head], k[head]) for head in range(heads)]) & past(len(x))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5 + alibi(len(x), heads)
        mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + w.linear(mixed.transpose(0, 1).flatten(1), f"{at}.result")
        x = x + w.swiglu(w.rms_norm(x, f"{at}.norm_2"), at)
    return x


def ssmax(w, x, given, factor):
    """Nakanishi 2025: the base of the powers is the number of keys, n^(s z) = exp(s log(n) z)."""
    for layer in range(2):
        at, keys = f"stack.{layer}", torch.arange(1, len(x) + 1).double()
        read = f"{at}.attention"
        by = factor(lambda name: w[f"{read}.score{name}"][:, None, None], keys.log()[:, None])
        x = x + w.attention(w.rms_norm(x, f"{at}.norm"), read, past(len(x)), rotate=rope, score=lambda s: s * by)
        x = x + w.swiglu(w.rms_norm(x, f"{at}.norm_2"), at)
    return x


def row(r, c, s, d):
    return r == s


def column(r, c, s, d):
    return c == d


def box(r, c, s, d):
    return (r // 3, c // 3) == (s // 3, d // 3)


def near(r, c, s, d):
    return abs(r - s) <= 2 and abs(c - d) <= 2


MODELS = {
    "fox": fox,
    "one_gate": lambda w, x, given: fox(w, x, given, 1),
    "streaming": lambda w, x, given: streaming(w, x, given, sinks(4, 16), lambda w, at, n: alibi(n)),
    "no_sinks": lambda w, x, given: streaming(w, x, given, sinks(0, 16), lambda w, at, n: alibi(n)),
    "spans": lambda w, x, given: streaming(w, x, given, past, spans),
    "grid": lambda w, x, given: grid(w, x, given, [row, column, box, lambda *_: True], 4),
    "axial": lambda w, x, given: grid(w, x, given, [row, column], 2),
    "near": lambda w, x, given: grid(w, x, given, [near], 2),
    "moba": lambda w, x, given: moba(w, x, given, lambda q, k: earlier_blocks(q, k, 16, 2)),
    "whole": lambda w, x, given: moba(w, x, given, lambda q, k: torch.ones(len(q), len(q), dtype=torch.bool)),
    "own": lambda w, x, given: moba(w, x, given, lambda q, k: torch.zeros(len(q), len(q), dtype=torch.bool)),
    "ssmax": lambda w, x, given: ssmax(w, x, given, lambda learned, log: learned("") * log),
    "fixed": lambda w, x, given: ssmax(w, x, given, lambda learned, log: log),
    "with_bias": lambda w, x, given: ssmax(w, x, given, lambda learned, log: learned("_s") * log + learned("_b")),
    "packed": lambda w, x, given: packed(w, x, given, same),
    "joined": lambda w, x, given: packed(w, x, given, lambda i, j, document, head: j == j),
    "windows": lambda w, x, given: packed(w, x, given, lambda i, j, d, head: same(i, j, d, head) & ((head > 1) | (i - j < 16)), 4),
    "functions": functions,
    "widths": widths,
    "picked": picked,
    "picked_past": picked_past,
    "histories": histories,
}


def answer(request):
    w = Weights(request["weights"], request["sizes"])
    offsets, tokens = request["offsets"], torch.tensor(request["tokens"])
    logits = []
    for start, end in zip(offsets, offsets[1:]):
        x = w["embed.table"][tokens[start:end]]
        given = {name: torch.tensor(numbers[start:end]) for name, numbers in request["given"].items()}
        x = MODELS[request["model"]](w, x, given)
        logits.append(w.linear(F.relu(w.linear(x, "head.hidden")), "head.output")[:, 0])
    logits, weight = torch.cat(logits), torch.tensor(request["weight"], dtype=torch.float64)
    labels = torch.tensor(request["labels"], dtype=torch.float64)
    losses = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    loss = (losses * weight).sum() / weight.sum()
    loss.backward()
    unread = sorted(set(w.all) - w.read)
    if unread:
        raise SystemExit(f"{request['model']}: nothing reads {', '.join(unread)} of {', '.join(w.all)}")
    return {
        "logits": logits.flatten().tolist(),
        "loss": [loss.item()],
        "gradients": {name: x.grad.flatten().tolist() for name, x in w.all.items()},
    }


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
