"""Beam searches of the implementation that RTC_PEER names, on weights, rows and draws from stdin (JSON); outputs to stdout."""
import importlib.util
import json
import math
import os
import sys

import torch


def number(*places):
    """A number in (0, 1) that depends on these places alone."""
    x = math.sin(sum((i + 1) * 12.9898 * (p + 1) for i, p in enumerate(places))) * 43758.5453
    return min(max(x - math.floor(x), 1e-9), 1 - 1e-9)


def main():
    path = os.environ["RTC_PEER"]
    spec = importlib.util.spec_from_file_location("peer", path)
    peer = importlib.util.module_from_spec(spec)
    sys.modules["peer"] = peer
    spec.loader.exec_module(peer)
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    asked = json.load(sys.stdin)
    d, answers = asked["d"], []
    for case in asked["cases"]:
        enc = peer.Encoder(peer.Spec(
            model=case["model"], dim=d, widen=asked["widen"], score_dims=asked["slice"], beam=case["beam"],
            chunk=case["chunk"], pre_s4=False, noisy=case["noisy"], p_cell=0.0, p_s4=0.0, p_in=0.0, p_out=0.0))
        enc.train()
        for name, value in enc.named_parameters():
            value.data = torch.tensor(asked["weights"][name]).view(value.shape)
        at = {"level": -1, "step": 0}
        tree, search = enc.tree, enc.tree.forward

        def counted(*args):
            at["level"] += 1
            at["step"] = 0
            return search(*args)

        def rank(score, ok, k, tree=tree):
            pairs = score.dim() == 3
            key = score.clone()
            if tree.noisy:
                noise = torch.zeros_like(score)
                for i in range(score.numel()):
                    where = [int(w) for w in torch.unravel_index(torch.tensor(i), score.shape)]
                    kind = 0 if pairs else 1
                    u = number(at["level"], at["step"], kind, *where)
                    noise.view(-1)[i] = -math.log(-math.log(u))
                key = key + noise
            return key.masked_fill(~ok, float("-inf")).topk(k, -1).indices

        tree.forward, tree._rank = counted, rank
        # Every merge of a step is one call of the cell.
        tree.cell.register_forward_hook(lambda *_: at.__setitem__("step", at["step"] + 1))

        def sampler(score, alive):
            rows, beams = score.shape
            out = torch.zeros(rows, beams, dtype=torch.long)
            for row in range(rows):
                live = int(alive[row].sum())
                for slot in range(1, beams):
                    out[row, slot] = min(int(number(at["level"], row, slot) * beams), live - 1)
            return out

        enc.sampler = sampler
        x = torch.tensor(case["x"]).view(1, -1, d).requires_grad_()
        out = enc(x, torch.ones(1, x.shape[1], dtype=torch.bool))
        loss = torch.nn.functional.cross_entropy(out, torch.zeros(1, dtype=torch.long))
        loss.backward()
        grads = {n: v.grad.reshape(-1).tolist() for n, v in enc.named_parameters() if v.grad is not None}
        answers.append({"out": out[0].tolist(), "x": x.grad.reshape(-1).tolist(), "grads": grads})
    json.dump(answers, sys.stdout)


main()
