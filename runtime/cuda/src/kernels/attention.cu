// What goes with an attention; its own kernels are made for the models that need them (attention_kernels.rs).

// The first `steps` of the slots of every position, of `d` numbers each, and the other way round.
KERNEL(pack_slots)(const real *x, real *y, int slots, int steps, whole d, whole n) {
    EACH(i, n)
    y[i] = x[i / (steps * d) * slots * d + i % (steps * d)];
}
KERNEL(unpack_slots)(const real *x, real *y, int slots, int steps, whole d, whole n) {
    EACH(i, n)
    whole at = i % (slots * d);
    y[i] = at < steps * d ? x[i / (slots * d) * steps * d + at] : (real)0;
}

// Sines and cosines of distances from `last` down, from those of positions: sines of distances ahead are negative.
KERNEL(distance_waves)(const real *codes, real *y, int last, int channels, whole n) {
    EACH(i, n)
    whole distance = last - (whole)(i / channels), c = i % channels;
    real wave = codes[(distance < 0 ? -distance : distance) * channels + c];
    y[i] = distance < 0 && c < (channels + 1) / 2 ? -wave : wave;
}
