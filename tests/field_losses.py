"""The losses of the first updates of an independent PyTorch model, for the specs of `cases/latent` and `cases/routing`.

usage: field_losses.py PEERS FIXTURES CASES

PEERS holds `latent_torch.py` and `routing_torch.py`, FIXTURES the folders `latent` and `routing`, CASES those of the specs. For every
fixture, `CASES/KIND/NAME.losses.json` becomes the losses of 20 updates of all its weights on its one batch, in double precision:
gradients clipped to norm 1, AdamW with rate 1e-3, betas 0.9 and 0.98, epsilon 1e-8 and decay 0.1.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

UPDATES = 20


def latent(peer, folder, meta):
    """The weights that are trained, and the loss as a function."""
    spec, io = meta["spec"], load_file(folder / "io.safetensors")
    weights = load_file(folder / "weights.safetensors")
    for name, weight in weights.items():
        weight.requires_grad_(name not in peer.FIXED)
    rows = []
    for r, n in enumerate(meta["lengths"]):
        labels = io["labels"][r] if spec["task"] == "classify" else io["labels"][r, :n]
        row = {"tokens": io["tokens"][r, :n], "labels": labels}
        if "weight" in io:
            row["weight"] = io["weight"][r, :n].to(torch.float64)
        for key, name in (("state", "init_state"), ("h", "init_h"), ("l", "init_l")):
            if name in io:
                row[key] = io[name][r, : n + spec.get("slots", 0)]
        for key in ("puzzle", "min_segments", "free_loops", "grad_loops"):
            if key in io:
                row[key] = io[key][r]
        rows.append(row)
    return list(weights.values()), lambda: peer.run(spec, weights, rows)[2]


def routing(peer, folder, meta):
    """The weights that are trained, and the loss as a function."""
    model, io = peer.build(peer.Spec(**meta["spec"])), load_file(folder / "io.safetensors")
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    model.double()
    cut = lambda key: [row[: int(keep.sum())] for row, keep in zip(io[key], io["keep"])]
    tokens, labels, counts = cut("tokens"), cut("labels"), [w.to(torch.float64) for w in cut("weight")]
    return list(model.parameters()), lambda: peer.evaluate(model, tokens, labels, counts)[0]


def losses(weights, loss):
    """The loss before every update."""
    rule, found = None, []
    for _ in range(UPDATES):
        for weight in weights:
            weight.grad = None
        value = loss()
        value.backward()
        found.append(float(value.detach()))
        moving = [weight for weight in weights if weight.grad is not None]
        rule = rule or torch.optim.AdamW(moving, lr=1e-3, betas=(0.9, 0.98), eps=1e-8, weight_decay=0.1)
        torch.nn.utils.clip_grad_norm_(moving, 1.0)
        rule.step()
    return found


def main(peers, fixtures, cases):
    sys.path.insert(0, peers)
    torch.set_num_threads(1)
    import latent_torch
    import routing_torch

    for kind, peer, read in (("latent", latent_torch, latent), ("routing", routing_torch, routing)):
        for folder in sorted(path.parent for path in Path(fixtures, kind).glob("*/meta.json")):
            meta = json.loads((folder / "meta.json").read_text())
            found = losses(*read(peer, folder, meta))
            Path(cases, kind).mkdir(parents=True, exist_ok=True)
            Path(cases, kind, f"{folder.name}.losses.json").write_text(json.dumps(found, indent=1) + "\n")
            print(folder.name, found[0] - meta["loss"], found[-1])


main(*sys.argv[1:])
