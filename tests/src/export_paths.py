"""Loads exports as a user does, all in one process, and compares them with rtc.

usage: export_paths.py CASES.json FOUND.json

A case has `name`, `rows` of tokens as words, `depth` or null, and `answers`, the file that `rtc predict --logits --json` wrote for the rows.
Of its exports it has those that were written: `module`, a folder, with `labels` of the rows and the file `gradients` of rtc's own, and
`onnx`, a file. Found is for every case and export: the largest difference of logits, relative to the larger of 1 and the largest logit, of
gradients, relative to the largest gradient of the weight, the spread of logits between rows, and seconds; or what failed.
"""

import importlib.util
import json
import sys
import time
import traceback
from pathlib import Path

import numpy
import onnxruntime
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

OUTSIDE = 1e300  # the difference of what cannot be compared

torch.set_num_threads(1)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 4


def tokens_of(rows, vocabulary):
    """Ids of the tokens, with zeros behind the ends of rows, and lengths."""
    ids = {token: n for n, token in enumerate(vocabulary)}
    width = max(map(len, rows))
    return [[ids[word] for word in row] + [0] * (width - len(row)) for row in rows], [len(row) for row in rows]


def told(case, classes):
    """The logits of `rtc predict`, an array per row."""
    lines = [json.loads(line) for line in Path(case["answers"]).read_text().splitlines()]
    one = lambda logits: [logits[name] for name in classes]
    whole = lambda logits: [one(each) for each in logits] if isinstance(logits, list) else one(logits)
    return [numpy.array(whole(line["logits"]), dtype=numpy.float64) for line in lines]


def difference(ours, theirs, least):
    """The largest difference relative to the largest of `theirs`, or to `least`."""
    if ours.shape != theirs.shape:
        return OUTSIDE
    far = numpy.abs(ours - theirs)
    return float(far.max() / max(least, numpy.abs(theirs).max())) if numpy.isfinite(far).all() else OUTSIDE


def logits_differ(case, logits, classes):
    """The largest difference of logits, and how much they vary between rows."""
    rows = [row if row.ndim == 1 else row[: len(words)] for row, words in zip(logits, case["rows"])]
    if rows[0].shape[-1] == 1 and len(classes) == 2:
        rows = [numpy.concatenate([numpy.zeros_like(row), row], -1) for row in rows]
    expected = told(case, classes)
    scale = max(1.0, max(numpy.abs(row).max() for row in expected))
    first = [row.reshape(-1, row.shape[-1])[0] for row in expected]
    spread = max(float(numpy.abs(row - first[0]).max()) for row in first)
    return max(difference(a.astype(numpy.float64), b, scale) for a, b in zip(rows, expected)), spread


def loss_of(results, case):
    """The loss of the task on the labels of a case, with the model's own penalty."""
    logits, labels = results["logits"], torch.tensor(case["labels"])
    if logits.dim() == 3:
        logits = torch.cat([row[: len(words)] for row, words in zip(logits, case["rows"])])
    if logits.shape[-1] == 1:
        loss = F.binary_cross_entropy_with_logits(logits[:, 0], labels.to(logits.dtype))
    else:
        loss = F.cross_entropy(logits, labels)
    return loss + results.get("penalty", 0.0)


def gradients_differ(model, case):
    """The weight whose gradient differs most from rtc's, and by how much."""
    expected = {name: x.double().numpy() for name, x in load_file(case["gradients"]).items()}
    found = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in model.named_parameters()}
    if set(found) != set(expected):
        raise AssertionError(f"weights of one side alone: {sorted(set(found) ^ set(expected))}")
    # What is nothing beside the largest gradient is rounding.
    least = 1e-6 * max(1e-12, max(numpy.abs(x).max() for x in expected.values()))
    far = {name: difference(found[name].numpy(), x, least) for name, x in expected.items()}
    return max(far.items(), key=lambda item: item[1])


def in_torch(n, case):
    folder = Path(case["module"])
    config = json.loads((folder / "config.json").read_text())
    spec = importlib.util.spec_from_file_location(f"exported_{n}", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Model.from_folder(folder)
    rows, lengths = tokens_of(case["rows"], config["vocabulary"])
    arguments = [torch.tensor(rows), torch.tensor(lengths)]
    if config["takes_depths"]:
        arguments.append(torch.full_like(arguments[1], case["depth"]))
    with torch.no_grad():
        logits = model(*arguments)
    logits, spread = logits_differ(case, [row.numpy() for row in logits], config["classes"])
    found = {"logits": logits, "spread": spread}
    if case.get("gradients"):
        model = model.double()
        loss_of(model.outputs(*arguments), case).backward()
        found["weight"], found["gradients"] = gradients_differ(model, case)
    model.float().train()
    model.zero_grad()
    loss_of(model.outputs(*arguments), case).backward()
    if not all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
        raise AssertionError("a gradient of training is not finite")
    return found


def in_onnx(case):
    session = onnxruntime.InferenceSession(case["onnx"], options, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    rows, lengths = tokens_of(case["rows"], json.loads(facts["vocabulary"]))
    inputs = {"tokens": numpy.array(rows), "lengths": numpy.array(lengths)}
    if any(one.name == "depths" for one in session.get_inputs()):
        inputs["depths"] = numpy.full(len(rows), case["depth"])
    (logits,) = session.run(["logits"], inputs)
    logits, spread = logits_differ(case, list(logits), json.loads(facts["classes"]))
    return {"logits": logits, "spread": spread}


def measured(run, *arguments):
    start = time.perf_counter()
    try:
        found = run(*arguments)
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc(limit=-3)}
    return found | {"seconds": time.perf_counter() - start}


cases = json.loads(Path(sys.argv[1]).read_text())
found = []
for n, case in enumerate(cases):
    found.append({"name": case["name"]})
    if case.get("module"):
        found[-1]["torch"] = measured(in_torch, n, case)
    if case.get("onnx"):
        found[-1]["onnx"] = measured(in_onnx, case)
Path(sys.argv[2]).write_text(json.dumps(found))
