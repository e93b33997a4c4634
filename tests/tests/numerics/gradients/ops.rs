//! Ops on vectors, rows, slots and numbers.

use super::{Case, ROW, SEQUENCE, SLOTS};

/// What is neither attention nor a scan.
pub(super) const OPS: &[Case] = &[
    ("embed", SEQUENCE, "%y = mul %a, %b : f32[batch, length, 4]"),
    (
        "frame",
        "f32[batch, length+2, 4]",
        "%f = frame %a, %bias, %gain : f32[batch, length+2, 4]\n%y = gelu %f : f32[batch, length+2, 4]",
    ),
    (
        "prefix",
        "f32[batch, prefix2+length, 4]",
        "%v = concat %ra, %rb : f32[batch, 8]
         %p = prefix %a, %v : f32[batch, prefix2+length, 4]
         %y = gelu %p : f32[batch, prefix2+length, 4]",
    ),
    (
        "prefix of a prefix",
        SEQUENCE,
        "%v = concat %ra, %rb : f32[batch, 8]
         %p = prefix %a, %v : f32[batch, prefix2+length, 4]
         %q = prefix %p, %rc : f32[batch, prefix1+prefix2+length, 4]
         %n = running_sum %q {side: left} : f32[batch, prefix1+prefix2+length, 4]
         %r = unprefix %n {count: 1} : f32[batch, prefix2+length, 4]
         %y = unprefix %r {count: 2} : f32[batch, length, 4]",
    ),
    ("broadcast_batch", SLOTS, "%y = gelu %m : f32[batch, 3, 4]"),
    (
        "broadcast_batch of a vector",
        ROW,
        "%e = broadcast_batch %bias, %a : f32[batch, 4]\n%y = mul %e, %ra : f32[batch, 4]",
    ),
    ("mean", ROW, "%y = mean %a : f32[batch, 4]"),
    ("mean of units", "f32[batch]", "%y = mean %s : f32[batch]"),
    ("mean of slots", ROW, "%y = mean %m : f32[batch, 4]"),
    ("sum", ROW, "%y = sum %a : f32[batch, 4]"),
    ("sum of slots", ROW, "%y = sum %m : f32[batch, 4]"),
    ("broadcast_rows", SEQUENCE, "%y = broadcast_rows %ra, %b : f32[batch, length, 4]"),
    ("broadcast_rows of units", "f32[batch, length]", "%y = broadcast_rows %rs, %b : f32[batch, length]"),
    (
        "choice by the number of positions",
        ROW,
        "%two = longer_than_one %a : bool[batch]\n%y = select %two, %ra, %rb : f32[batch, 4]",
    ),
    ("running sum", SEQUENCE, "%y = running_sum %a {side: left} : f32[batch, length, 4]"),
    ("running sum of slots", SLOTS, "%y = running_sum %m {side: right} : f32[batch, 3, 4]"),
    ("first position", ROW, "%y = position %a {at: first} : f32[batch, 4]"),
    ("last position", ROW, "%y = position %a {at: last} : f32[batch, 4]"),
    ("last slot", ROW, "%y = position %m {at: last} : f32[batch, 4]"),
    (
        "position before the last",
        ROW,
        "%f = frame %a, %bias, %gain : f32[batch, length+2, 4]\n%y = position %f {at: before_last} : f32[batch, 4]",
    ),
    ("neighbours on the left", SEQUENCE, "%y = neighbours %a, %psig {side: left} : f32[batch, length, 4]"),
    ("neighbours on the right", SEQUENCE, "%y = neighbours %b, %psig {side: right} : f32[batch, length, 4]"),
    ("neighbours among numbers", "f32[batch, length]", "%y = neighbours %s, %psig {side: left} : f32[batch, length]"),
    ("max", ROW, "%y = max %a : f32[batch, 4]"),
    ("max of slots", ROW, "%y = max %m : f32[batch, 4]"),
    ("shift to the right", SEQUENCE, "%y = shift %a {side: left, lag: 2} : f32[batch, length, 4]"),
    ("shift to the left", SEQUENCE, "%y = shift %b {side: right, lag: 1} : f32[batch, length, 4]"),
    ("shift of numbers", "f32[batch, length]", "%y = shift %s {side: left, lag: 1} : f32[batch, length]"),
    ("shift of slots", SLOTS, "%y = shift %m {side: left, lag: 1} : f32[batch, 3, 4]"),
    (
        "shift beyond the row",
        SEQUENCE,
        "%t = shift %a {side: left, lag: 100} : f32[batch, length, 4]\n%y = add %t, %b : f32[batch, length, 4]",
    ),
    (
        "short convolution",
        SEQUENCE,
        "%one = shift %a {side: left, lag: 1} : f32[batch, length, 4]
         %near = affine %a, %gain : f32[batch, length, 4]
         %far = affine %one, %bias : f32[batch, length, 4]
         %y = add %near, %far : f32[batch, length, 4]",
    ),
    ("softmax over channels", SEQUENCE, "%y = softmax %a : f32[batch, length, 4]"),
    ("softmax over channels of rows", ROW, "%y = softmax %ra : f32[batch, 4]"),
    ("softmax of a parameter", ROW, "%p = softmax %bias : f32[4]\n%y = broadcast_batch %p, %a : f32[batch, 4]"),
    ("softmax over positions", "f32[batch, length]", "%y = softmax %s : f32[batch, length]"),
    (
        "positions weighed by softmax",
        ROW,
        "%p = softmax %s : f32[batch, length]\n%x = mul_unit %b, %p : f32[batch, length, 4]\n%y = sum %x : f32[batch, 4]",
    ),
    (
        "softmax over slots",
        "f32[batch, 3]",
        "%most = reduce %m {by: max} : f32[batch, 3, 1]\n%number = squeeze %most : f32[batch, 3]\n%y = softmax %number : f32[batch, 3]",
    ),
    ("sum over channels", "f32[batch, length, 1]", "%y = reduce %a {by: sum} : f32[batch, length, 1]"),
    ("mean over channels", "f32[batch, length, 1]", "%y = reduce %a {by: mean} : f32[batch, length, 1]"),
    ("max over channels", "f32[batch, length, 1]", "%y = reduce %a {by: max} : f32[batch, length, 1]"),
    (
        "mean over one channel",
        "f32[batch, 1]",
        "%t = reduce %ra {by: max} : f32[batch, 1]\n%y = reduce %t {by: mean} : f32[batch, 1]",
    ),
    ("mean over channels of slots", "f32[batch, 3, 1]", "%y = reduce %m {by: mean} : f32[batch, 3, 1]"),
    (
        "numbers in all channels",
        SEQUENCE,
        "%t = broadcast_channels %s1 {width: 4} : f32[batch, length, 4]\n%y = mul %t, %b : f32[batch, length, 4]",
    ),
    ("concat", "f32[batch, length, 5]", "%y = concat %a, %s1 : f32[batch, length, 5]"),
    ("concat of rows", "f32[batch, 8]", "%y = concat %ra, %rb : f32[batch, 8]"),
    ("slice", "f32[batch, length, 2]", "%y = slice %a {start: 1, width: 2} : f32[batch, length, 2]"),
    ("pad", "f32[batch, length, 7]", "%y = pad %a {start: 2, width: 7} : f32[batch, length, 7]"),
    ("squeeze", "f32[batch, length]", "%y = squeeze %s1 : f32[batch, length]"),
    ("unsqueeze", "f32[batch, length, 1]", "%y = unsqueeze %s : f32[batch, length, 1]"),
    (
        "streams of channels and back",
        SEQUENCE,
        "%p = split %a {parts: 2} : f32[batch, length, 2, 2]
         %g = gelu %p : f32[batch, length, 2, 2]
         %y = merge %g : f32[batch, length, 4]",
    ),
    (
        "streams of rows",
        "f32[batch, 2, 2]",
        "%p = split %ra {parts: 2} : f32[batch, 2, 2]\n%y = gelu %p : f32[batch, 2, 2]",
    ),
    (
        "mean of streams",
        "f32[batch, 2, 2]",
        "%p = split %a {parts: 2} : f32[batch, length, 2, 2]\n%y = mean %p : f32[batch, 2, 2]",
    ),
    (
        "sum of streams",
        "f32[batch, 2, 2]",
        "%p = split %a {parts: 2} : f32[batch, length, 2, 2]\n%y = sum %p : f32[batch, 2, 2]",
    ),
    (
        "max of streams",
        "f32[batch, 2, 2]",
        "%p = split %a {parts: 2} : f32[batch, length, 2, 2]\n%y = max %p : f32[batch, 2, 2]",
    ),
    (
        "last position of streams",
        "f32[batch, 2, 2]",
        "%p = split %a {parts: 2} : f32[batch, length, 2, 2]\n%y = position %p {at: last} : f32[batch, 2, 2]",
    ),
    (
        "running sum of streams",
        "f32[batch, length, 2, 2]",
        "%p = split %a {parts: 2} : f32[batch, length, 2, 2]\n%y = running_sum %p {side: left} : f32[batch, length, 2, 2]",
    ),
    (
        "shift of streams",
        "f32[batch, length, 2, 2]",
        "%p = split %a {parts: 2} : f32[batch, length, 2, 2]
         %y = shift %p {side: left, lag: 1} : f32[batch, length, 2, 2]",
    ),
    ("slots at every position", "f32[batch, length, 3, 4]", "%y = broadcast_rows %m, %a : f32[batch, length, 3, 4]"),
    (
        "numbers of streams",
        "f32[batch, length, 2, 4]",
        "%ab = concat %a, %b : f32[batch, length, 8]
         %p = split %ab {parts: 2} : f32[batch, length, 2, 4]
         %two = linear %c, %slots : f32[batch, length, 3]
         %g = slice %two {start: 0, width: 2} : f32[batch, length, 2]
         %x = mul_unit %p, %g : f32[batch, length, 2, 4]
         %y = rms_norm %x, %gain {eps: 1e-2} : f32[batch, length, 2, 4]",
    ),
    (
        "linear on streams",
        "f32[batch, length, 2, 3]",
        "%ab = concat %a, %b : f32[batch, length, 8]
         %p = split %ab {parts: 2} : f32[batch, length, 2, 4]
         %y = linear %p, %wide : f32[batch, length, 2, 3]",
    ),
    (
        "products of matrices",
        "f32[batch, length, 2, 2]",
        "%ab = concat %a, %b : f32[batch, length, 8]
         %p = split %ab {parts: 2} : f32[batch, length, 2, 4]
         %bc = concat %b, %c : f32[batch, length, 8]
         %q = split %bc {parts: 4} : f32[batch, length, 4, 2]
         %y = matmul %p, %q : f32[batch, length, 2, 2]",
    ),
    (
        "products with a transposed left side",
        "f32[batch, length, 2, 1]",
        "%ab = concat %a, %b : f32[batch, length, 8]
         %p = split %ab {parts: 4} : f32[batch, length, 4, 2]
         %q = split %c {parts: 4} : f32[batch, length, 4, 1]
         %y = matmul %p, %q {transposed: left} : f32[batch, length, 2, 1]",
    ),
    (
        "products with a transposed right side",
        "f32[batch, length, 2, 1]",
        "%ab = concat %a, %b : f32[batch, length, 8]
         %p = split %ab {parts: 2} : f32[batch, length, 2, 4]
         %q = split %c {parts: 1} : f32[batch, length, 1, 4]
         %y = matmul %p, %q {transposed: right} : f32[batch, length, 2, 1]",
    ),
    ("products of slots", "f32[batch, 3, 3]", "%y = matmul %m, %m {transposed: right} : f32[batch, 3, 3]"),
    (
        "numbers of positions",
        "f32[batch, length]",
        "%n = positions %a : f32[batch, length]\n%y = mul %n, %s : f32[batch, length]",
    ),
    ("sines of numbers", "f32[batch, length, 5]", "%y = sinusoid %s {width: 5} : f32[batch, length, 5]"),
    (
        "sines of rows, then cosines",
        "f32[batch, 6]",
        "%y = sinusoid %rs {width: 6, layout: half, base: 30.0} : f32[batch, 6]",
    ),
    ("pair", "f32[batch/2, 16]", "%y = pair %ra : f32[batch/2, 16]"),
    ("linear", "f32[batch, length, 3]", "%y = linear %a, %wide : f32[batch, length, 3]"),
    ("linear with bias", SEQUENCE, "%y = linear %a, %w, %bias : f32[batch, length, 4]"),
    ("linear on rows", ROW, "%y = linear %ra, %w, %bias : f32[batch, 4]"),
    ("linear on slots", SLOTS, "%y = linear %m, %w, %bias : f32[batch, 3, 4]"),
    ("layer norm", SEQUENCE, "%y = layer_norm %a, %gain, %bias {eps: 1e-5} : f32[batch, length, 4]"),
    ("layer norm of rows", ROW, "%y = layer_norm %ra, %gain, %bias {eps: 1e-2} : f32[batch, 4]"),
    (
        "layer norm of a parameter",
        SLOTS,
        "%n = layer_norm %slots, %gain, %bias {eps: 1e-2} : f32[3, 4]\n%y = broadcast_batch %n, %a : f32[batch, 3, 4]",
    ),
    ("layer norm without bias", SEQUENCE, "%y = layer_norm %a, %gain {eps: 1e-5} : f32[batch, length, 4]"),
    ("rms norm", SEQUENCE, "%y = rms_norm %a, %gain {eps: 1e-5} : f32[batch, length, 4]"),
    ("rms norm of rows without gain", ROW, "%y = rms_norm %ra {eps: 1e-2} : f32[batch, 4]"),
    (
        "rms norm of heads",
        SEQUENCE,
        "%g = slice %gain {start: 1, width: 2} : f32[2]\n%y = rms_norm %a, %g {eps: 1e-2, parts: 2} : f32[batch, length, 4]",
    ),
    ("rms norm of parts without gain", SLOTS, "%y = rms_norm %m {eps: 1e-2, parts: 2} : f32[batch, 3, 4]"),
    (
        "rms norm of a parameter",
        SLOTS,
        "%n = rms_norm %slots, %gain {eps: 1e-2} : f32[3, 4]\n%y = broadcast_batch %n, %a : f32[batch, 3, 4]",
    ),
    ("gelu", SEQUENCE, "%y = gelu %a : f32[batch, length, 4]"),
    ("gelu with tanh", SEQUENCE, "%y = gelu_tanh %a : f32[batch, length, 4]"),
    (
        "sines as positions",
        SEQUENCE,
        "%p = add_position %a : f32[batch, length, 4]\n%y = mul %p, %b : f32[batch, length, 4]",
    ),
    (
        "learned positions",
        SEQUENCE,
        "%t = param {name: \"t\", init: zeros} : f32[7, 4]
         %p = add_position %a, %t : f32[batch, length, 4]
         %y = mul %p, %b : f32[batch, length, 4]",
    ),
    ("relu", SEQUENCE, "%y = relu %a : f32[batch, length, 4]"),
    ("sigmoid", SEQUENCE, "%y = sigmoid %a : f32[batch, length, 4]"),
    ("silu", SEQUENCE, "%y = silu %a : f32[batch, length, 4]"),
    ("softplus", SEQUENCE, "%y = softplus %a : f32[batch, length, 4]"),
    (
        "log",
        SEQUENCE,
        "%p = map %a {f: add(0.5, mul(a, a))} : f32[batch, length, 4]\n%y = log %p : f32[batch, length, 4]",
    ),
    ("sqrt", SEQUENCE, "%p = softplus %a : f32[batch, length, 4]\n%y = sqrt %p : f32[batch, length, 4]"),
    ("rsqrt", SEQUENCE, "%p = softplus %a : f32[batch, length, 4]\n%y = rsqrt %p : f32[batch, length, 4]"),
    ("abs", SEQUENCE, "%y = abs %a : f32[batch, length, 4]"),
    ("sign", SEQUENCE, "%y = map %a, %b {f: mul(sign(a), b)} : f32[batch, length, 4]"),
    ("minimum", SEQUENCE, "%y = minimum %a, %b : f32[batch, length, 4]"),
    ("less", SEQUENCE, "%l = less %a, %b : f32[batch, length, 4]\n%y = mul %l, %c : f32[batch, length, 4]"),
    ("choose", SEQUENCE, "%y = choose %a, %b, %c : f32[batch, length, 4]"),
    ("add", SEQUENCE, "%y = add %a, %b : f32[batch, length, 4]"),
    ("add to itself", SEQUENCE, "%y = add %a, %a : f32[batch, length, 4]"),
    ("sub", SEQUENCE, "%y = sub %a, %b : f32[batch, length, 4]"),
    ("mul", SEQUENCE, "%y = mul %a, %b : f32[batch, length, 4]"),
    ("square", SEQUENCE, "%y = mul %a, %a : f32[batch, length, 4]"),
    (
        "div",
        SEQUENCE,
        "%g = sigmoid %b : f32[batch, length, 4]\n%d = map %g {f: add(a, 0.5)} : f32[batch, length, 4]\n%y = div %a, %d : f32[batch, length, 4]",
    ),
    ("scale", SEQUENCE, "%y = map %a {f: mul(-1.7, a)} : f32[batch, length, 4]"),
    ("offset", SEQUENCE, "%y = map %a {f: add(a, 0.9)} : f32[batch, length, 4]"),
    ("lerp", SEQUENCE, "%g = sigmoid %a : f32[batch, length, 4]\n%y = lerp %g, %b, %c : f32[batch, length, 4]"),
    ("gate", SEQUENCE, "%y = map %a, %b, %c {f: lerp(sigmoid(a), b, c)} : f32[batch, length, 4]"),
    ("gate of rows", ROW, "%y = map %ra, %rb, %rc {f: lerp(sigmoid(a), b, c)} : f32[batch, 4]"),
    ("select by position", SEQUENCE, "%y = select %when, %a, %b : f32[batch, length, 4]"),
    ("select by row", SEQUENCE, "%y = select %rwhen, %a, %b : f32[batch, length, 4]"),
    ("select of units", "f32[batch]", "%y = select %rwhen, %rs, %rpsig : f32[batch]"),
    ("mask_unit by position", SEQUENCE, "%y = mask_unit %a, %when {when: true} : f32[batch, length, 4]"),
    ("mask_unit by row", SLOTS, "%y = mask_unit %m, %rwhen {when: false} : f32[batch, 3, 4]"),
    ("mul_unit by position", SEQUENCE, "%y = mul_unit %b, %s : f32[batch, length, 4]"),
    ("mul_unit by row", SEQUENCE, "%y = mul_unit %b, %rs : f32[batch, length, 4]"),
    ("mul_unit of slots by row", SLOTS, "%y = mul_unit %m, %rs : f32[batch, 3, 4]"),
    ("mul_unit of units by row", "f32[batch, length]", "%y = mul_unit %s, %rs : f32[batch, length]"),
    ("add_scaled by position", SEQUENCE, "%y = add_scaled %a, %b, %s : f32[batch, length, 4]"),
    ("add_scaled by row", SEQUENCE, "%y = add_scaled %a, %b, %rs : f32[batch, length, 4]"),
    ("add_scaled of rows", ROW, "%y = add_scaled %ra, %rb, %rs : f32[batch, 4]"),
    ("dropout", SEQUENCE, "%y = dropout %a {p: 0.4, stream: 3} : f32[batch, length, 4]"),
    ("dropout of rows", ROW, "%y = dropout %ra {p: 0.2, stream: 4} : f32[batch, 4]"),
    (
        "normal numbers",
        SEQUENCE,
        "%n = normal %a {std: 0.7, stream: 3} : f32[batch, length, 4]
         %c2 = normal %s {std: 1.5, cut: 1.2, stream: 4} : f32[batch, length]
         %x = mul %n, %a : f32[batch, length, 4]
         %y = mul_unit %x, %c2 : f32[batch, length, 4]",
    ),
    (
        "uniform numbers of slots and of rows",
        SLOTS,
        "%n = uniform %m {low: -0.5, high: 1.5, stream: 3} : f32[batch, 3, 4]
         %r = uniform %rs {low: 0.5, high: 1.0, stream: 3} : f32[batch]
         %x = mul %n, %m : f32[batch, 3, 4]
         %y = mul_unit %x, %r : f32[batch, 3, 4]",
    ),
    (
        "normal numbers that are the same in every row",
        ROW,
        "%n = normal %ra {std: 0.7, stream: 3, draws: level} : f32[batch, 4]\n%y = mul %n, %ra : f32[batch, 4]",
    ),
    ("affine", SEQUENCE, "%y = affine %a, %gain, %bias : f32[batch, length, 4]"),
    ("affine of rows without bias", ROW, "%y = affine %ra, %gain : f32[batch, 4]"),
    ("tied dropout", SEQUENCE, "%y = dropout %a {p: 0.4, stream: 3, tied: true} : f32[batch, length, 4]"),
    ("average", "f32[]", "%y = average %a : f32[]"),
];

/// Ops on rows of one length.
pub(super) const OF_ONE_LENGTH: &[Case] = &[
    (
        "transpose",
        SLOTS_OF_POSITIONS,
        "%t = transpose %a {count: 4} : f32[batch, 4, 4]\n%y = gelu %t : f32[batch, 4, 4]",
    ),
    (
        "transpose and back",
        SEQUENCE,
        "%t = transpose %a {count: 4} : f32[batch, 4, 4]
         %m2 = linear %t, %w : f32[batch, 4, 4]
         %n = layer_norm %m2, %gain, %bias {eps: 1e-2} : f32[batch, 4, 4]
         %u = transpose_back %n, %b : f32[batch, length, 4]
         %y = mul %u, %b : f32[batch, length, 4]",
    ),
];
const SLOTS_OF_POSITIONS: &str = "f32[batch, 4, 4]";

/// Values that come with the examples.
pub(super) const GIVEN: &str = "
  %start = input {name: \"start\"} : f32[batch, length, 4]
  %kind = input {name: \"kind\"} : u32[batch]
  %kinds = param {name: \"kinds\", init: zeros} : f32[3, 4]
  %of_kind = embed %kind, %kinds : f32[batch, 4]
  %x = mul %start, %a : f32[batch, length, 4]
  %sum = sum %x : f32[batch, 4]
  %y = mul %sum, %of_kind : f32[batch, 4]";
