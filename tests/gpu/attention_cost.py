#!/usr/bin/env python3
"""What the tiles of attention cost on an H100, counted from machine code: no GPU is needed, NVRTC and cuobjdump are.

    tests/gpu/attention_cost.py FOLDER     FOLDER has lib/libnvrtc.so.13 and bin/cuobjdump, as the wheels lay them

Each kernel is compiled for heads of 64 channels, with and without dropout, and its loop over tiles is counted: instructions by kind, times
the turns of inner loops. A block has four warps, one on each of the four schedulers of a processor. Cycles of a tile are the largest of:

- instructions of a warp, one a cycle;
- bytes through shared and first-level memory, 128 a cycle for the four warps together, with no two lanes sharing a read;
- products on the units for matrices, at the peak that is quoted for them (1,024 FLOP of bf16 a cycle and scheduler, 512 of tf32);
- exponentials and their like, four lanes a cycle and scheduler.

Useful products are those that attention is made of: two forward, and four each for the gradients of queries and of keys, which make the
scores and dy v^T again. Waiting (for memory, at barriers) is not counted: shares are bounds from above.
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

KERNELS = pathlib.Path(__file__).resolve().parent.parent.parent / "runtime" / "src" / "cuda" / "kernels"
TEXTS = ["base", "fragments", "expression", "attend", "tile"]

# A mask that shows everything, so that no code for hidden keys is in the loop.
RULE = """
struct Everything {
    __device__ Span keys_of(const Attend &a, const Head &h, whole first, whole last) const { return span(0, h.keys); }
    __device__ Span queries_of(const Attend &a, const Head &h, whole first, whole last) const { return span(0, h.queries); }
    __device__ real at(const Attend &a, const Head &h, int i, int j) const { return 0; }
    __device__ bool open(const Attend &a, const Head &h, int i, int j, int queries, int keys) const { return true; }
};
"""
SIZES = "a.heads = 8; a.key_heads = 8; a.e = 64; a.ev = 64; a.softcap = 0;"
# Name, parameters, call, which pass of the loop over tiles, useful products.
PARTS = [
    ("forward", "real *y", "tile_attend<{0}, {1}, false>(a, Everything(), y);", None, 2),
    ("queries", "OF_QUERIES", "tile_queries<{0}, {1}, false>(a, Everything(), dy, dq, stats, by_keys, by_codes);", 0, 0),
    ("queries", "OF_QUERIES", "tile_queries<{0}, {1}, false>(a, Everything(), dy, dq, stats, by_keys, by_codes);", 1, 4),
    ("keys", "OF_KEYS", "tile_keys<{0}, {1}, false>(a, Everything(), dy, stats, dk, dv);", None, 4),
]
# FLOP of one product of a warp's part of a tile: 16 rows, 32 columns, 64 channels.
PRODUCT = 2 * 16 * 32 * 64
# FLOP a cycle and scheduler at the peak.
PEAK = {"Single": 64, "Tf32": 512, "Bf16": 1024}


def source(engine, kept, dropout, part):
    text = "".join((KERNELS / f"{name}.cu").read_text() for name in TEXTS) + RULE
    _, parameters, call, turn, _ = part
    text = text.replace("t.columns == TILE_COLUMNS && rule.open", "rule.open")
    if turn is not None:
        text = text.replace("for (int pass = 0; pass < 2; pass++)", f"for (int pass = {turn}; pass < {turn + 1}; pass++)")
    known = "if (!a.threshold) return;" if dropout else "a.threshold = 0;"
    return text + f"TEAM(part)(ATTEND, {parameters}) {{ GIVEN {SIZES} {known} {call.format(engine, kept)} }}\n"


def compiled(library, text, capability):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"part.cu", 0, None, None)
    options = [f"--gpu-architecture=sm_{capability}".encode(), b"--std=c++17", b"-DREAL=float"]
    if library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    library.nvrtcGetCUBINSize(program, ctypes.byref(size))
    code = ctypes.create_string_buffer(size.value)
    library.nvrtcGetCUBIN(program, code)
    return code.raw


def instructions(tool, code):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        text = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True, check=True).stdout
        used = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+ )?([A-Z0-9_.]+)([^;]*);", text)
    found = [(int(at, 16), name, rest) for at, name, rest in found]
    registers, stack = (int(re.search(rf"{word}:(\d+)", used.split("rtc_part")[1]).group(1)) for word in ("REG", "STACK"))
    return found, registers, stack


def counted(found, keeps_rows):
    """Instructions of a turn of the loop over tiles, each with how often it runs."""
    target = lambda rest: int(re.search(r"0x([0-9a-f]+)", rest).group(1), 16)
    jumps = [(target(rest), at) for at, name, rest in found if name == "BRA" and "0x" in rest]
    # Lanes that have parted meet in code behind the kernel's end, from where jumps lead back; nothing of that is a loop.
    end = next(at for at, name, _ in reversed(found) if name == "EXIT")
    loops = [(a, b) for a, b in jumps if a < b <= end]
    # The loop over tiles is the shortest one with all barriers that any has.
    barriers = lambda loop: sum(name.startswith("BAR") for at, name, _ in found if loop[0] <= at <= loop[1])
    tiles = max(loops, key=lambda loop: (barriers(loop), loop[0] - loop[1]))
    inner = [loop for loop in loops if tiles[0] < loop[0] and loop[1] < tiles[1]]
    starts = {a for a, _ in jumps} | {at + 16 for _, at in jumps}
    blocks, block = [], []
    for one in found:
        if one[0] in starts and block:
            blocks.append(block)
            block = []
        block.append(one)
    blocks.append(block)
    out = []
    for block in blocks:
        if not tiles[0] <= block[0][0] <= tiles[1]:
            continue
        names = [name for _, name, _ in block]
        # Rows are staged in the first turn alone: 64 of 64 channels take 8 loads of 4 numbers a thread, columns take 4.
        if keeps_rows and sum(name.startswith("LDG") for name in names) >= 8:
            continue
        times = 1
        for a, b in inner:
            if a <= block[0][0] <= b:
                times = turns(found, (a, b))
        out += [(name, times) for name in names]
    return out


def turns(found, loop):
    """Turns of a loop inside that over tiles, which says by what it is compared with how far it goes."""
    body = [(name, rest) for at, name, rest in found if loop[0] <= at <= loop[1]]
    sums = sum(name.startswith("FFMA") for name, _ in body)
    if not sums:
        # A thread loads one number at most of what is known of a tile's queries.
        return 1
    # A lane has 16 scores of 64 terms each; weights of 32 columns go to 16 of its numbers.
    channels = any(name.startswith("ISETP") and re.search(r"0x(40|3c|38)\b", rest) for name, rest in body)
    return (1024 if channels else 512) // sums


def bytes_of(name):
    if not name.startswith(("LDS", "STS", "LDG", "STG")):
        return 0
    if name.startswith("LDSM"):
        return 512
    width = re.search(r"\.(128|64)\b", name)
    return 32 * (int(width.group(1)) // 8 if width else 4)


def cost(engine, all_):
    issue = sum(times for _, times in all_)
    shared = sum(times * bytes_of(name) for name, times in all_) * 4 / 128
    matrix = sum(times for name, times in all_ if name.startswith("HMMA")) * {"Bf16": 4, "Tf32": 4}.get(engine, 0)
    special = sum(times for name, times in all_ if name.startswith("MUFU")) * 8
    return issue, shared, matrix, special


def main():
    folder, capability = pathlib.Path(sys.argv[1]), "90"
    library, tool = ctypes.CDLL(str(folder / "lib" / "libnvrtc.so.13")), str(folder / "bin" / "cuobjdump")
    print("Capability 9.0, heads of 64 channels; cycles of a tile of 64 x 32 by what they are spent on\n")
    print("| engine | values | dropout | kernel | registers | instructions | shared memory | matrices | special | share of the peak |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for engine, kept in (("Single", "real"), ("Tf32", "real"), ("Bf16", "real"), ("Bf16", "bf16")):
        peak = PEAK[engine]
        for dropout in (False, True):
            useful, cycles = 0, 0
            for part in PARTS:
                found, registers, stack = instructions(tool, compiled(library, source(engine, kept, dropout, part), capability))
                assert stack == 0, f"{part[0]} has a stack"
                issue, shared, matrix, special = cost(engine, counted(found, engine != "Single"))
                most = max(issue, shared, matrix, special)
                useful, cycles = useful + part[4] * PRODUCT, cycles + most
                share = f"{100 * part[4] * PRODUCT / peak / most:.0f} %" if part[4] else ""
                name = part[0] + ("" if part[3] is None else f", pass {part[3] + 1}")
                word = "yes" if dropout else "no"
                print(f"| {engine} | {kept} | {word} | {name} | {registers} | {issue} | {shared:.0f} | {matrix} | {special} | {share} |")
            print(f"| {engine} | {kept} | {'yes' if dropout else 'no'} | **all** | | | | | | **{100 * useful / peak / cycles:.0f} %** |")


main()
