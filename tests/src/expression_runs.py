"""Runs a model of numbers in PyTorch and in onnxruntime: a JSON line per request on standard input, and a JSON line per answer.

A request has `inputs` by name (`tokens`, `lengths`, ..: lists of whole numbers) and for PyTorch `module`, the text of a module, with
`weights` by name (shape and numbers), for onnxruntime `onnx`, a file. The answer has for `torch` and `onnx` the logits as `numbers`, or
`error`; where the request says `packed`, without what stands behind the ends of rows. For `torch`, where the request has `gradients`,
the answer has those of the squares of logits, too.
"""

import types
import warnings

import numpy
import onnx
import torch

import exports

warnings.simplefilter("ignore")


def told(logits, request):
    if request["packed"]:
        rows = [row[:length].reshape(-1) for row, length in zip(logits, request["inputs"]["lengths"])]
        return exports.numbers(numpy.concatenate(rows))
    return exports.numbers(logits.reshape(-1))


def in_torch(request):
    module = types.ModuleType("exported")
    exec(compile(request["module"], "model.py", "exec"), module.__dict__)
    model = module.Model().double()
    for name, parameter in model.named_parameters():
        shape, numbers = request["weights"][name]
        parameter.data = torch.tensor([float(x) for x in numbers], dtype=torch.float64).reshape(shape)
    logits = model.eval()(*(torch.tensor(x) for x in request["inputs"].values()))
    logits.nan_to_num(0.0, 0.0, 0.0).square().sum().backward()
    answer = {"numbers": told(logits.detach().numpy(), request)}
    if request["gradients"]:
        answer["gradients"] = {name: exports.numbers(x.reshape(-1)) for name, x in exports.gradients(model).items()}
    return answer


def in_onnx(request):
    onnx.checker.check_model(request["onnx"])
    inputs = {name: numpy.array(x, dtype=numpy.int64) for name, x in request["inputs"].items()}
    (logits,) = exports.session(request["onnx"]).run(["logits"], inputs)
    return {"numbers": told(logits, request)}


def run(request):
    answer = {}
    for name, given, run in (("torch", "module", in_torch), ("onnx", "onnx", in_onnx)):
        if request.get(given) is None:
            continue
        try:
            answer[name] = run(request)
        except Exception as error:
            answer[name] = {"error": f"{type(error).__name__}: {error}"}
    return answer


exports.answer(run)
