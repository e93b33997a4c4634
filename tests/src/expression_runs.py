"""Runs exported modules and ONNX models of one value: a JSON line per request on standard input, with the text of a module, its weights
by name (shape and numbers), the file of an ONNX model, tokens and lengths; a JSON line per answer with what each of both gives for the
tokens, one row behind the other, or why it gives nothing. A number that is none or infinite is a text."""
import json
import sys
import types
import warnings

import numpy
import onnxruntime
import torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.log_severity_level = 4


def told(rows, lengths):
    numbers = numpy.concatenate([row[:length].reshape(-1) for row, length in zip(rows, lengths)])
    return [float(x) if numpy.isfinite(x) else str(x) for x in numbers]


def in_torch(request):
    module = types.ModuleType("exported")
    exec(compile(request["module"], "model.py", "exec"), module.__dict__)
    model = module.Model().double()
    for name, parameter in model.named_parameters():
        shape, numbers = request["weights"][name]
        parameter.data = torch.tensor([float(x) for x in numbers], dtype=torch.float64).reshape(shape)
    logits = model.eval()(torch.tensor(request["tokens"]), torch.tensor(request["lengths"]))
    logits.nan_to_num(0.0, 0.0, 0.0).square().sum().backward()
    answer = {"numbers": told(logits.detach().numpy(), request["lengths"])}
    if request["gradients"]:
        answer["gradients"] = {
            name: [] if p.grad is None else [float(x) if x.isfinite() else str(float(x)) for x in p.grad.reshape(-1)]
            for name, p in model.named_parameters()
        }
    return answer


def in_onnx(request):
    session = onnxruntime.InferenceSession(request["onnx"], options, providers=["CPUExecutionProvider"])
    inputs = {name: numpy.array(request[name], dtype=numpy.int64) for name in ("tokens", "lengths")}
    (logits,) = session.run(["logits"], inputs)
    return {"numbers": told(logits, request["lengths"])}


for line in sys.stdin:
    request, answer = json.loads(line), {}
    for name, given, run in (("torch", "module", in_torch), ("onnx", "onnx", in_onnx)):
        if request[given] is None:
            continue
        try:
            answer[name] = run(request)
        except Exception as error:
            answer[name] = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
