"""Runs exported modules: for every folder, a line of JSON, the logits, other results and gradients of a padded batch.

Each folder holds an export and `case.json`; what came out goes to `found.safetensors`. The answer is null, or says what failed.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import exports

OUTSIDE = 10**6  # no token: what is padded is never read


def padded(rows, more):
    width = max(len(row) for row in rows) + more
    return torch.tensor([row + [OUTSIDE] * (width - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


def inputs(case, rows=None, more=3):
    chosen = case["rows"] if rows is None else [case["rows"][r] for r in rows]
    depths = {}
    if case["takes_depths"]:
        count = len(chosen) // 2 if case["objective"] == "pair" else len(chosen)
        depths = {"depths": torch.tensor([case["depths"][r] for r in (rows or range(count))][:count])}
    if case["objective"] == "pair":
        half = len(chosen) // 2
        return [*padded(chosen[:half], more), *padded(chosen[half:], more + 2)], depths
    return list(padded(chosen, more)), depths


def run(folder):
    folder = Path(folder)
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    model = exports.module(folder / "model.py").Model.from_folder(folder)
    names = set(load_file(folder / "weights.safetensors"))
    if names != {name for name, _ in model.named_parameters()}:
        raise AssertionError("parameters are not those of the file")
    if case["double"]:
        model = model.double()
    args, depths = inputs(case)
    results = model.outputs(*args, **depths)
    logits, loss = exports.loss_of(results, case)
    loss.backward()
    found = {f"gradient.{name}": gradient for name, gradient in exports.gradients(model).items()}
    found |= {f"result.{n}": x.reshape(-1) for n, x in results.items()} | {"result.logits": logits.reshape(-1)}
    save_file({name: x.detach().contiguous() for name, x in found.items()}, folder / "found.safetensors")
    with torch.no_grad():
        again, _ = exports.loss_of(model.outputs(*inputs(case, more=9)[0], **depths), case)
        if not torch.equal(again, logits):
            raise AssertionError("padding changes results")
        if case["independent"] and case["objective"] != "pair":
            for row in (0, 2):
                alone_args, alone_depths = inputs(case, [row])
                alone = model(*alone_args, **alone_depths)
                length = len(case["rows"][row]) if case["objective"] == "each" else None
                whole = results["logits"][row][:length]
                torch.testing.assert_close(alone[0][:length], whole, atol=2e-5, rtol=2e-5)
    exports.train(model, lambda model: exports.loss_of(model.outputs(*args, **depths), case)[1])


exports.answer(run)
