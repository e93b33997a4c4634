"""Runs exported modules: for every folder named on standard input, logits, other results and gradients of a padded batch.

Each folder holds an export and `case.json`; what came out goes to `found.safetensors`. A line of JSON per folder says what failed.
"""

import importlib.util
import json
import sys
import traceback
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

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


def loss_of(case, results):
    logits, labels = results["logits"], torch.tensor(case["labels"])
    if case["objective"] == "each":
        logits = torch.cat([row[: len(tokens)] for row, tokens in zip(logits, case["rows"])])
    if case["objective"] == "number":
        each = (logits[:, 0] - labels.to(logits.dtype)) ** 2
    elif case["objective"] == "several" or logits.shape[-1] == 1:
        each = F.binary_cross_entropy_with_logits(logits.flatten(), labels.to(logits.dtype), reduction="none")
    else:
        each = F.cross_entropy(logits, labels, reduction="none")
    weights = torch.tensor(case["weights"], dtype=logits.dtype) if case["weights"] else torch.ones_like(each)
    return logits, (each * weights).sum() / weights.sum() + results.get("penalty", 0.0)


def run(folder):
    case = json.loads((folder / "case.json").read_text())
    spec = importlib.util.spec_from_file_location("exported", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Model.from_folder(folder)
    names = set(load_file(folder / "weights.safetensors"))
    if names != {name for name, _ in model.named_parameters()}:
        raise AssertionError("parameters are not those of the file")
    if case["double"]:
        model = model.double()
    args, depths = inputs(case)
    results = model.outputs(*args, **depths)
    logits, loss = loss_of(case, results)
    loss.backward()
    found = {f"gradient.{n}": torch.zeros_like(p) if p.grad is None else p.grad for n, p in model.named_parameters()}
    found |= {f"result.{n}": x.reshape(-1) for n, x in results.items()} | {"result.logits": logits.reshape(-1)}
    save_file({name: x.detach().contiguous() for name, x in found.items()}, folder / "found.safetensors")
    with torch.no_grad():
        again = loss_of(case, model.outputs(*inputs(case, more=9)[0], **depths))[0]
        if not torch.equal(again, logits):
            raise AssertionError("padding changes results")
        if case["independent"] and case["objective"] != "pair":
            for row in (0, 2):
                alone_args, alone_depths = inputs(case, [row])
                alone = model(*alone_args, **alone_depths)
                length = len(case["rows"][row]) if case["objective"] == "each" else None
                whole = results["logits"][row][:length]
                torch.testing.assert_close(alone[0][:length], whole, atol=2e-5, rtol=2e-5)
    model.train()
    model.zero_grad()
    args, depths = inputs(case)
    _, loss = loss_of(case, model.outputs(*args, **depths))
    loss.backward()
    if not all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
        raise AssertionError("a gradient of training is not finite")


torch.set_num_threads(1)
for line in sys.stdin:
    folder = Path(line.rstrip("\n"))
    try:
        run(folder)
        fault = None
    except Exception:
        fault = traceback.format_exc(limit=-3)
    print(json.dumps({"folder": str(folder), "fault": fault}), flush=True)
