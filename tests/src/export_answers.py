"""Asks exports as their documentation says: for every line of standard input, a JSON object with the `folder` of an export, `texts`,
the `logits` that rtc has for them, and perhaps a file `onnx` of the same model, prints null, or what is wrong as `error`.
"""

from pathlib import Path

import torch

import exports


def in_onnx(file, tokens, lengths):
    (logits,) = exports.session(file).run(["logits"], {"tokens": tokens.numpy(), "lengths": lengths.numpy()})
    return torch.from_numpy(logits)


def run(case):
    folder = Path(case["folder"])
    tokenizer = exports.module(folder / "tokenizer.py").Tokenizer.from_folder(folder)
    exported = exports.module(folder / "model.py")
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
    exports.train(model, lambda model: model.outputs(*tokenizer(case["texts"]))["logits"].square().sum())
    if "onnx" in case:
        torch.testing.assert_close(in_onnx(case["onnx"], *tokenizer(case["texts"])), expected, atol=1e-5, rtol=1e-5)


exports.answer(run)
