"""A decoder in PyTorch that writes with keys and values kept: what `rtc generate` is timed beside.

Pre-norm layers with weights of their own, rotary positions, GELU, as `specs/transformer.rt` with the same sizes. The cache of
keys and values is allocated once, and a token is one forward pass of one position. Prints tokens per second, median of `--runs`.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--hidden", type=int, default=512)
parser.add_argument("--vocabulary", type=int, default=97)
parser.add_argument("--prompt", type=int, default=16)
parser.add_argument("--tokens", type=int, default=500)
parser.add_argument("--runs", type=int, default=5)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--compile", action="store_true", help="compile the step with torch.compile")
args = parser.parse_args()
torch.set_num_threads(args.threads)
torch.manual_seed(1)


def rotated(x, cosines, sines):
    """Turns pairs of channels of x[positions, heads, e]."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cosines - odd * sines, odd * cosines + even * sines), dim=-1).flatten(-2)


class Layer(torch.nn.Module):
    def __init__(self, room):
        super().__init__()
        width = args.width
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.into = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, args.hidden)
        self.down = torch.nn.Linear(args.hidden, width)
        shape = (args.heads, room, width // args.heads)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x, at, cosines, sines):
        new = x.shape[0]
        q, k, v = self.into(self.norms[0](x)).view(new, 3, args.heads, -1).unbind(1)
        q, k = rotated(q, cosines, sines), rotated(k, cosines, sines)
        self.keys[:, at : at + new] = k.transpose(0, 1)
        self.values[:, at : at + new] = v.transpose(0, 1)
        seen = at + new
        mask = None if new == 1 else torch.ones(new, seen, dtype=torch.bool).tril(seen - new)
        found = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], self.keys[None, :, :seen], self.values[None, :, :seen], attn_mask=mask
        )
        x = x + self.out(found[0].transpose(0, 1).reshape(new, -1))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Decoder(torch.nn.Module):
    def __init__(self, room):
        super().__init__()
        self.embed = torch.nn.Embedding(args.vocabulary, args.width)
        self.layers = torch.nn.ModuleList(Layer(room) for _ in range(args.layers))
        self.hidden = torch.nn.Linear(args.width, args.width)
        self.output = torch.nn.Linear(args.width, args.vocabulary)
        half = args.width // args.heads // 2
        angles = torch.arange(room)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cosines", angles.cos()[:, None])
        self.register_buffer("sines", angles.sin()[:, None])

    def forward(self, tokens, at):
        x = self.embed(tokens)
        here = slice(at, at + len(tokens))
        for layer in self.layers:
            x = layer(x, at, self.cosines[here], self.sines[here])
        return self.output(F.gelu(self.hidden(x[-1:])))


def write(model):
    tokens = torch.randint(args.vocabulary, (args.prompt,))
    start, at = time.perf_counter(), args.prompt
    logits = model(tokens, 0)
    for _ in range(args.tokens - 1):
        token = torch.multinomial(F.softmax(logits[0], -1), 1)
        logits = model(token, at)
        at += 1
    return args.tokens / (time.perf_counter() - start)


with torch.inference_mode():
    model = Decoder(args.prompt + args.tokens).eval()
    if args.compile:
        model = torch.compile(model, dynamic=True)
    write(model)
    rates = [write(model) for _ in range(args.runs)]
print(f"{statistics.median(rates):.0f} tokens per second ({min(rates):.0f} to {max(rates):.0f}), torch {torch.__version__}")
