"""Runs ONNX models with onnxruntime: a JSON line per request on standard input, {"model": FILE, "inputs": {NAME: {"shape", "data"}}},
and a JSON line with {"logits", "shape"} or {"error"} per answer."""
import json
import sys

import numpy
import onnx
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.log_severity_level = 4

for line in sys.stdin:
    request = json.loads(line)
    try:
        onnx.checker.check_model(request["model"])
        session = onnxruntime.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])
        inputs = {
            name: numpy.array(value["data"], dtype=numpy.int64).reshape(value["shape"])
            for name, value in request["inputs"].items()
        }
        (logits,) = session.run(["logits"], inputs)
        answer = {"logits": [float(x) for x in logits.reshape(-1)], "shape": list(logits.shape)}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
