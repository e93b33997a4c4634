"""Texts as tokens, as the model of this folder was trained on them. Written by `rtc export`.

    tokenizer = Tokenizer.from_folder("the folder of this file")
    logits = model(*tokenizer(["a text", "another one"]))
"""

import json
from pathlib import Path

import torch

# What Unicode calls white space; `str.isspace` has more.
BLANKS = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


class Tokenizer:
    """How a text becomes tokens: `tokens` of config.json."""

    def __init__(self, facts, trained=None):
        self.facts, self.trained = facts, trained
        self.ids = {}
        for n, piece in enumerate(facts["pieces"]):
            self.ids.setdefault(piece, n)
        self.letters = set()
        for part in (facts["letters"] or "").split():
            first, _, last = part.partition("-")
            self.letters.update(range(int(first, 16), int(last or first, 16) + 1))

    @classmethod
    def from_folder(cls, folder):
        """The one of an export."""
        folder, trained = Path(folder), None
        facts = json.loads((folder / "config.json").read_text(encoding="utf-8"))["tokens"]
        if facts["cut"] == "tokenizer.json":
            import tokenizers

            trained = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            trained.no_padding()
            trained.no_truncation()
        return cls(facts, trained)

    def __call__(self, texts):
        """Tokens [B, S] of some texts, with zeros behind the shorter ones, and their lengths [B]."""
        rows = [self.encode(text) for text in texts]
        lengths = torch.tensor([len(row) for row in rows])
        return torch.tensor([row + [0] * (max(lengths) - len(row)) for row in rows]), lengths

    def encode(self, text):
        """The ids of the tokens of a text, or of a list of its pieces."""
        ids = self.facts.get("before", []) + self.all_ids(text)[: self.facts["length"]]
        if not ids:
            raise ValueError(f"the text {text!r} has no tokens")
        return ids + self.facts.get("behind", [])

    def all_ids(self, text):
        pieces = text if isinstance(text, (list, tuple)) else None
        for name, mark in self.facts.get("marks", {}).items():
            if pieces is None and name in text:
                first, *others = (self.all_ids(part) for part in text.split(name))
                return first + [token for ids in others for token in [mark, *ids]]
        if pieces is None:
            for old, new in self.facts["replaced"]:
                text = text.replace(old, new)
            if self.facts["cut"] == "tokenizer.json":
                return self.trained.encode(text, add_special_tokens=False).ids
            if self.facts["cut"] == "bytes":
                return list(text.encode())
            pieces = list(text) if self.facts["cut"] == "characters" else list(self.pieces(text))
        unknown = self.facts["unknown"]
        strange = [piece for piece in pieces if piece not in self.ids]
        if strange and unknown is None:
            raise ValueError(f"{strange[0]!r} is none of the tokens of the model")
        return [self.ids.get(piece, unknown) for piece in pieces]

    def pieces(self, text):
        """Words, or what stands between blanks; with `line_ends` these, too."""
        begun = ""
        for c in text + " ":
            if c not in BLANKS and (self.facts["cut"] == "blanks" or ord(c) in self.letters):
                begun += c
                continue
            if begun:
                yield begun
            begun = ""
            if c not in BLANKS or (c == "\n" and self.facts["line_ends"]):
                yield c
