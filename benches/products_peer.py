"""The side of PyTorch for the table of products: the three products of a linear map, in single precision or in bfloat16."""

import argparse
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
args = parser.parse_args()

import torch  # noqa: E402

from serve import serve  # noqa: E402


class Product:
    """A product of its operands `rows x inputs`, `outputs x inputs` and `rows x outputs`; they are rounded beforehand."""

    def __init__(self, request):
        rows, inputs, outputs = request["rows"], request["inputs"], request["outputs"]
        dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
        x, w, dy = (torch.randn(shape).to(dtype) for shape in [(rows, inputs), (outputs, inputs), (rows, outputs)])
        products = [(x, w.T), (dy, w), (dy.T, x)]
        self.runs = [(a, b, torch.empty(a.shape[0], b.shape[1], dtype=dtype)) for a, b in products]
        self.count = request["count"]

    @torch.inference_mode()
    def made(self):
        ms = []
        for a, b, out in self.runs:
            best = float("inf")
            for _ in range(self.count):
                start = time.perf_counter()
                torch.mm(a, b, out=out)
                best = min(best, time.perf_counter() - start)
            ms.append(best * 1e3)
        return dict(ms=ms)


serve(args.threads, product=Product)
