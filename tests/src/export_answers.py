"""Asks exports as their documentation says: for every line of standard input, a JSON object with the `folder` of an export, `texts`,
and the `logits` that rtc has for them, prints what is wrong, or null.
"""

import importlib.util
import json
import sys
import traceback
from pathlib import Path

import torch


def module(folder, name):
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def run(case):
    folder = Path(case["folder"])
    tokenizer = module(folder, "tokenizer").Tokenizer.from_folder(folder)
    exported = module(folder, "model")
    model = exported.Model.from_folder(folder)
    logits, expected = model(*tokenizer(case["texts"])), torch.tensor(case["logits"])
    if logits.dtype != torch.float32:
        raise AssertionError(f"logits are {logits.dtype}")
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    double = exported.Model.from_folder(folder).double()
    again = double(*tokenizer(case["texts"]))
    if again.dtype != torch.float64:
        raise AssertionError(f"logits of numbers in double precision are {again.dtype}")
    torch.testing.assert_close(again.float(), expected, atol=1e-5, rtol=1e-5)
    model.train()
    model.outputs(*tokenizer(case["texts"]))["logits"].square().sum().backward()
    if not all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
        raise AssertionError("a gradient is not finite")


torch.set_num_threads(1)
for line in sys.stdin:
    try:
        run(json.loads(line))
        fault = None
    except Exception:
        fault = traceback.format_exc(limit=-2)
    print(json.dumps(fault), flush=True)
