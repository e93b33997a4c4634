"""Loads exports as a user does, all in one process, and compares them with rtc.

usage: export_paths.py CASES.json FOUND.json

A case has `name`, `rows` of tokens as words (for pairs the first sides and then the second ones), `objective`, `depth`, and `answers`,
the file that `rtc predict --logits --json` wrote for the rows. Of its exports it has those that were written: `module`, a folder, with `labels` of the rows and the file `gradients` of rtc's own, and
`onnx`, a file. Found is for every case and export: the largest difference of logits, relative to the larger of 1 and the largest logit, of
gradients, relative to the largest gradient of the weight, of logits in single precision from those in double precision (`rounding`, of
the module), the spread of logits between rows, and seconds; or what failed.
"""

import json
import sys
import time
import traceback
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file

import exports

OUTSIDE = 1e300  # the difference of what cannot be compared


def tokens_of(rows, vocabulary):
    """Ids of the tokens, with zeros behind the ends of rows, and lengths."""
    ids = {token: n for n, token in enumerate(vocabulary)}
    width = max(map(len, rows))
    return [[ids[word] for word in row] + [0] * (width - len(row)) for row in rows], [len(row) for row in rows]


def inputs_of(case, vocabulary):
    """Tokens and lengths by name, and those of the second sides of pairs."""
    half = len(case["rows"]) // 2
    parts = [case["rows"][:half], case["rows"][half:]] if case["objective"] == "pair" else [case["rows"]]
    inputs = {}
    for end, rows in zip(("", "_2"), parts):
        inputs["tokens" + end], inputs["lengths" + end] = tokens_of(rows, vocabulary)
    return inputs


def told(case, facts):
    """The logits of `rtc predict`, an array per row; of a number that number, in the unit of the model."""
    lines = [json.loads(line) for line in Path(case["answers"]).read_text(encoding="utf-8").split("\n") if line]
    if case["objective"] == "number":
        scale = facts["scale"]
        return [numpy.array([(line["number"] - scale["mean"]) / scale["deviation"]]) for line in lines]
    classes = facts["classes"]
    one = lambda logits: [logits[name] for name in classes]
    whole = lambda logits: [one(each) for each in logits] if isinstance(logits, list) else one(logits)
    return [numpy.array(whole(line["logits"]), dtype=numpy.float64) for line in lines]


def difference(ours, theirs, least):
    """The largest difference relative to the largest of `theirs`, or to `least`."""
    if ours.shape != theirs.shape:
        return OUTSIDE
    far = numpy.abs(ours - theirs)
    return float(far.max() / max(least, numpy.abs(theirs).max())) if numpy.isfinite(far).all() else OUTSIDE


def logits_differ(case, logits, facts):
    """The largest difference of logits, and how much they vary between rows."""
    rows = [row if row.ndim == 1 else row[: len(words)] for row, words in zip(logits, case["rows"])]
    if rows[0].shape[-1] == 1 and len(facts["classes"]) == 2:
        rows = [numpy.concatenate([numpy.zeros_like(row), row], -1) for row in rows]
    expected = told(case, facts)
    if len(rows) != len(expected):
        raise AssertionError(f"{len(rows)} answers, not {len(expected)}")
    scale = max(1.0, max(numpy.abs(row).max() for row in expected))
    first = [row.reshape(-1, row.shape[-1])[0] for row in expected]
    spread = max(float(numpy.abs(row - first[0]).max()) for row in first)
    return {"logits": max(difference(a.astype(float), b, scale) for a, b in zip(rows, expected)), "spread": spread}


def double_differs(case, logits):
    """The largest difference of logits in double precision from rtc's, which are packed."""
    if case["objective"] == "each":
        logits = torch.cat([row[: len(words)] for row, words in zip(logits, case["rows"])])
    return difference(logits.numpy().reshape(-1), numpy.array(case["double"]), 1.0)


def gradients_differ(model, case):
    """The weight whose gradient differs most from rtc's, and by how much."""
    expected = {name: x.double().numpy() for name, x in load_file(case["gradients"]).items()}
    found = exports.gradients(model)
    # A module has every weight of its file; those that only losses of labels read have no gradient in its own penalty.
    read = {name: x for name, x in found.items() if name in expected or x.any()}
    if set(read) != set(expected):
        raise AssertionError(f"weights with a gradient on one side alone: {sorted(set(read) ^ set(expected))}")
    # What is nothing beside the largest gradient is rounding.
    least = 1e-6 * max(1e-12, max(numpy.abs(x).max() for x in expected.values()))
    far = {name: difference(found[name].numpy(), x, least) for name, x in expected.items()}
    name, most = max(far.items(), key=lambda item: item[1])
    return {"weight": name, "gradients": most}


def in_torch(n, case):
    folder = Path(case["module"])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = exports.module(folder / "model.py", f"exported_{n}").Model.from_folder(folder)
    arguments = [torch.tensor(x) for x in inputs_of(case, config["vocabulary"]).values()]
    if config["takes_depths"]:
        arguments.append(torch.full_like(arguments[1], case["depth"]))
    with torch.no_grad():
        logits = model(*arguments)
    found = logits_differ(case, [row.numpy() for row in logits], config)
    loss = lambda model: exports.loss_of(model.outputs(*arguments), case)[1]
    model = model.double()
    with torch.no_grad():
        double = model(*arguments)
    found["double"] = double_differs(case, double)
    found["rounding"] = max(difference(a.double().numpy(), b.numpy(), 1.0) for a, b in zip(logits, double))
    loss(model).backward()
    found |= gradients_differ(model, case)
    exports.train(model.float(), loss)
    return found


def in_onnx(case):
    session = exports.session(case["onnx"])
    facts = session.get_modelmeta().custom_metadata_map
    facts = {key: json.loads(facts[key]) for key in ("vocabulary", "classes", "scale") if key in facts}
    inputs = {name: numpy.array(x) for name, x in inputs_of(case, facts["vocabulary"]).items()}
    if any(one.name == "depths" for one in session.get_inputs()):
        inputs["depths"] = numpy.full(len(case["rows"]), case["depth"])
    (logits,) = session.run(["logits"], inputs)
    return logits_differ(case, list(logits), facts)


def measured(run, *arguments):
    start = time.perf_counter()
    try:
        found = run(*arguments)
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc(limit=-3)}
    return found | {"seconds": time.perf_counter() - start}


cases = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
found = []
for n, case in enumerate(cases):
    found.append({"name": case["name"]})
    if case.get("module"):
        found[-1]["torch"] = measured(in_torch, n, case)
    if case.get("onnx"):
        found[-1]["onnx"] = measured(in_onnx, case)
Path(sys.argv[2]).write_text(json.dumps(found))
