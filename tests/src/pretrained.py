"""Logits and gradients of an exported model in double precision against those of a folder in Hugging Face's format: `io.safetensors` has
tokens, logits, and the gradients of the mean loss over all next tokens, by the names of the folder and behind a prefix."""

import importlib.util
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file

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


def added(request):
    """Puts a tensor of a file into a copy of another one, in the place of the link to it."""
    tensors = load_file(request["into"])
    tensors[request["tensor"]] = load_file(request["add"])[request["tensor"]]
    path = pathlib.Path(request["into"])
    path.unlink()
    save_file(tensors, path)
    return {}


def published(request):
    """Logits and a greedy text of transformers, of a folder in Hugging Face's format, against an export in single precision."""
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_default_dtype(torch.float32)
    load = transformers.AutoModelForCausalLM.from_pretrained
    theirs, info = load(request["published"], dtype=torch.float32, output_loading_info=True)
    own = loaded(request["exported"]).float()
    tokens, worst = torch.tensor(request["tokens"]), 0.0
    with torch.no_grad():
        logits = own(tokens[None], torch.tensor([len(tokens)])).reshape(len(tokens), -1)
        worst = (theirs(tokens[None]).logits[0] - logits).abs().max().item()
        text = theirs.generate(tokens[None], max_new_tokens=6, do_sample=False, eos_token_id=None, pad_token_id=0)[0]
        row = tokens
        for _ in range(6):
            row = torch.cat([row, own(row[None], torch.tensor([len(row)])).reshape(len(row), -1)[-1:].argmax(-1)])
    torch.set_default_dtype(torch.float64)
    missing = sorted(info["missing_keys"]) + sorted(info["unexpected_keys"])
    return {"logits": worst, "missing": missing, "text": text.tolist(), "own": row.tolist()}


ANSWERS = {"add": added, "published": published}

for line in sys.stdin:
    request = json.loads(line)
    answer = next((own for name, own in ANSWERS.items() if name in request), compared)
    print(json.dumps(answer(request)), flush=True)
