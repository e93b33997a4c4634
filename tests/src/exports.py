"""What the scripts share that run exports."""

import importlib.util
import json
import sys
import traceback

import numpy
import onnxruntime
import torch
import torch.nn.functional as F

torch.set_num_threads(1)


def module(path, name="exported"):
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def session(file):
    """An ONNX model in onnxruntime, on one thread and without warnings."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def numbers(values):
    """Numbers for JSON; one that is none or infinite is a text."""
    return [float(x) if numpy.isfinite(x) else str(float(x)) for x in values]


def gradients(model):
    """The gradient of every parameter; zeros where nothing reads it."""
    return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}


def loss_of(results, case):
    """Logits of what is asked, and the loss of the task with the model's own penalty. A case has `rows`, `objective`, `labels`, and
    perhaps `weights` of the labels."""
    logits, labels = results["logits"], torch.tensor(case["labels"])
    if case["objective"] == "each":
        logits = torch.cat([row[: len(tokens)] for row, tokens in zip(logits, case["rows"])])
    if case["objective"] == "number":
        each = (logits[:, 0] - labels.to(logits.dtype)) ** 2
    elif case["objective"] == "several" or logits.shape[-1] == 1:
        each = F.binary_cross_entropy_with_logits(logits.flatten(), labels.flatten().to(logits.dtype), reduction="none")
    else:
        each = F.cross_entropy(logits, labels, reduction="none")
    own = case.get("weights")
    weights = torch.tensor(own, dtype=logits.dtype) if own else torch.ones_like(each)
    return logits, (each * weights).sum() / weights.sum() + results.get("penalty", 0.0)


def train(model, loss):
    """Fails where a step of training has a gradient that is not finite; `loss` gives the loss of the model."""
    model.train()
    model.zero_grad()
    loss(model).backward()
    if not all(p.grad is None or p.grad.isfinite().all() for p in model.parameters()):
        raise AssertionError("a gradient of training is not finite")


def answer(run):
    """Answers every line of JSON on standard input with the line that `run` makes of it, or `{"error": ..}`."""
    for line in sys.stdin:
        try:
            found = run(json.loads(line))
        except Exception:
            found = {"error": traceback.format_exc(limit=-3)}
        print(json.dumps(found), flush=True)
