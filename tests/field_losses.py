"""The losses of the first updates of an independent PyTorch model, for the specs of `cases/latent` and `cases/routing`.

usage: field_losses.py PEERS FIXTURES CASES

PEERS holds `latent_torch.py` and `routing_torch.py`, FIXTURES the folders `latent` and `routing`, CASES those of the specs. For every
fixture, `CASES/KIND/NAME.losses.json` becomes the losses of 20 updates of all its weights on its one batch, in double precision:
gradients clipped to norm 1, AdamW with rate 1e-3, betas 0.9 and 0.98, epsilon 1e-8 and decay 0.1.

For fixtures with several segments, `NAME.steps.json` becomes the loss of every update, and the slots whose rows were through with it,
where an update is made after every segment: the rows come into 3 slots in turn, and stay there with their states until they are through.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

UPDATES = 20
SLOTS = 3


def latent(peer, folder, meta):
    """The specification, the weights, and the rows."""
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
    return spec, weights, rows


def at_once(peer, folder, meta):
    """The weights that are trained, and the loss as a function."""
    spec, weights, rows = latent(peer, folder, meta)
    return list(weights.values()), lambda: peer.run(spec, weights, rows)[2]


class Slots:
    """Rows that stay with their states until they are through."""

    def __init__(self, peer, spec, weights, rows):
        self.peer, self.spec, self.weights, self.rows = peer, spec, weights, rows
        self.names = ["init.h"] if spec["model"] == "urm" else ["init.h", "init.l"]
        self.taken, self.over = 0, []
        self.slots = [self.fresh() for _ in range(SLOTS)]

    def fresh(self):
        row = self.rows[self.taken % len(self.rows)]
        self.taken += 1
        n = row["tokens"].shape[0] + self.spec["slots"]
        return row, tuple(self.weights[name].detach().expand(n, -1) for name in self.names), 0

    def step(self, number):
        """The loss of a slot after one segment; it then holds what comes next."""
        peer, spec, weights = self.peer, self.spec, self.weights
        row, carry, before = self.slots[number]
        carry, logits, q_halt, q_cont = peer.segment(spec, weights, row, carry)
        carry = tuple(c.detach() for c in carry)
        each = peer.nll(logits, row["labels"], spec["ce"])
        right = ((logits.argmax(-1) == row["labels"]) | (row["weight"] == 0)).all()
        loss = (each * row["weight"]).sum() / row["weight"].sum().clamp(min=1)
        loss = loss + 0.5 * peer.bce(q_halt, right.to(loss.dtype))
        final = before + 1 >= spec["segments"]
        if spec["q_continue"]:
            with torch.no_grad():
                _, _, next_halt, next_cont = peer.segment(spec, weights, row, carry)
                target = torch.sigmoid(next_halt if final else torch.maximum(next_halt, next_cont))
            loss = loss + 0.5 * peer.bce(q_cont, target)
        enough = q_halt > q_cont if spec["q_continue"] else q_halt > 0
        if final or (bool(enough) and before + 1 >= int(row["min_segments"])):
            self.over.append(number)
        self.slots[number] = (row, carry, before + 1)
        return loss

    def loss(self):
        """The mean over the slots; those that were through before have the next rows."""
        for number in self.over:
            self.slots[number] = self.fresh()
        self.over = []
        return sum(self.step(number) for number in range(SLOTS)) / SLOTS


def routing(peer, folder, meta):
    """The weights that are trained, and the loss as a function."""
    model, io = peer.build(peer.Spec(**meta["spec"])), load_file(folder / "io.safetensors")
    model.load_state_dict(load_file(folder / "weights.safetensors"))
    model.double()
    cut = lambda key: [row[: int(keep.sum())] for row, keep in zip(io[key], io["keep"])]
    tokens, labels, counts = cut("tokens"), cut("labels"), [w.to(torch.float64) for w in cut("weight")]
    return list(model.parameters()), lambda: peer.evaluate(model, tokens, labels, counts)[0]


def losses(weights, loss, note=None):
    """The loss before every update, or what there is to note of it."""
    rule, found = None, []
    for _ in range(UPDATES):
        for weight in weights:
            weight.grad = None
        value = loss()
        value.backward()
        found.append(note(value) if note else float(value.detach()))
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

    for kind, peer, read in (("latent", latent_torch, at_once), ("routing", routing_torch, routing)):
        for folder in sorted(path.parent for path in Path(fixtures, kind).glob("*/meta.json")):
            meta = json.loads((folder / "meta.json").read_text())
            found = losses(*read(peer, folder, meta))
            Path(cases, kind).mkdir(parents=True, exist_ok=True)
            Path(cases, kind, f"{folder.name}.losses.json").write_text(json.dumps(found, indent=1) + "\n")
            print(folder.name, found[0] - meta["loss"], found[-1])
            if meta["spec"].get("segments", 1) > 1:
                slots = Slots(peer, *latent(peer, folder, meta))
                note = lambda value: {"loss": float(value.detach()), "over": list(slots.over)}
                found = losses(list(slots.weights.values()), slots.loss, note)
                Path(cases, kind, f"{folder.name}.steps.json").write_text(json.dumps(found, indent=1) + "\n")
                print(folder.name, [update["over"] for update in found])


main(*sys.argv[1:])
