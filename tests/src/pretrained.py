"""Logits and gradients of an exported model in double precision against those of a folder in Hugging Face's format: `io.safetensors` has
tokens, logits, and the gradients of the mean loss over all next tokens, by the names of the folder and behind a prefix."""

import importlib.util
import json
import sys

import torch
from safetensors.torch import load_file

torch.set_default_dtype(torch.float64)


def loaded(folder):
    spec = importlib.util.spec_from_file_location("exported", folder + "/model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Model.from_folder(folder).double()


def compared(request):
    model, io, prefix = loaded(request["exported"]), load_file(request["io"]), request["prefix"]
    losses, logits = [], 0.0
    for row in range(sum(name.startswith("tokens.") for name in io)):
        tokens = io[f"tokens.{row}"]
        own = model(tokens[None], torch.tensor([len(tokens)])).reshape(len(tokens), -1)
        logits = max(logits, (own - io[f"{prefix}logits.{row}"]).abs().max().item())
        losses.append(torch.nn.functional.cross_entropy(own[:-1], tokens[1:], reduction="none"))
    torch.cat(losses).mean().backward()
    parameters, gradients, count = dict(model.named_parameters()), 0.0, 0
    for theirs, own in json.load(open(request["names"])).items():
        own = {"to": own} if isinstance(own, str) else own
        if own is None or f"{prefix}grad.{theirs}" not in io:
            continue
        expected = io[f"{prefix}grad.{theirs}"]
        if "rows" in own:
            parts = [parameters[name].grad for name in own["rows"]]
            groups = own.get("groups", 1)
            # Each group has the rows of all parts.
            found = torch.cat([part.unflatten(0, (groups, -1)) for part in parts], 1).flatten(0, 1)
        else:
            found = parameters[own["to"]].grad
            found = found[own["at"]] if "at" in own else found
        found = found.T if own.get("transpose") else found
        gradients, count = max(gradients, (found - expected).abs().max().item()), count + 1
    return {"logits": logits, "gradients": gradients, "compared": count}


for line in sys.stdin:
    print(json.dumps(compared(json.loads(line))), flush=True)
