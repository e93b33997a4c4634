// Random numbers as values, as `kernel/draw.rs` makes them: every product is rounded by itself, so the bits are those of the CPU.

__device__ inline double horner(double x, const double *coefficients) {
    double sum = coefficients[0];
    for (int n = 1; n < 8; n++) sum = __dmul_rn(sum, x) + coefficients[n];
    return sum;
}
// The natural logarithm by the series of artanh.
__device__ inline double series_logarithm(double x) {
    int n;
    double m = frexp(x, &n);
    if (m < 0.7071067811865476) {
        m *= 2.0;
        n--;
    }
    double f = (m - 1.0) / (m + 1.0), s = __dmul_rn(f, f), series = 0;
    for (int odd = 23; odd > 0; odd -= 2) series = __dmul_rn(series, s) + 1.0 / odd;
    return __dmul_rn(n, 0.6931471805599453) + 2.0 * __dmul_rn(f, series);
}
// The number below which a standard normal one lies with probability p.
__device__ inline double normal_quantile(double p) {
    const double centre_above[] = {2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987, 13731.69376550946, 1971.5909503065513, 133.14166789178438, 3.3871328727963665};
    const double centre_below[] = {5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597, 5394.196021424751, 687.1870074920579, 42.31333070160091, 1.0};
    const double tail_above[] = {0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684, 3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835};
    const double tail_below[] = {1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008, 0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0};
    const double far_above[] = {2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124, 0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103};
    const double far_below[] = {2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133, 0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0};
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - __dmul_rn(q, q);
        return __dmul_rn(q, horner(r, centre_above)) / horner(r, centre_below);
    }
    double r = sqrt(-series_logarithm(q < 0 ? p : 1.0 - p));
    bool near = r <= 5.0;
    r -= near ? 1.6 : 5.0;
    // A choice between arrays would keep them in memory.
    double size = near ? horner(r, tail_above) / horner(r, tail_below) : horner(r, far_above) / horner(r, far_below);
    return q < 0 ? -size : size;
}
// `form` is: where the points of the distribution begin, how wide they lie, what normal numbers are cut at, and what they are multiplied
// with. Without ids all rows have the same numbers.
KERNEL(draw)(const u64 *key, const double *form, int normal, const u64 *ids, const u32 *row_of, const u32 *offsets, int per, int width, real *y, whole n) {
    EACH(i, n)
    Unit unit = unit_of(i / width, row_of, offsets, per);
    u64 row = ids ? key_at(*key, ids[unit.row]) : *key;
    u64 bits = mix(row + (u64)(unit.at * width + i % width) * 0x9E3779B97F4A7C15ull);
    double between = ((double)(bits >> 12) + 0.5) * (1.0 / 4503599627370496.0);
    double point = form[0] + __dmul_rn(form[1], between);
    if (normal) {
        double z = normal_quantile(point), most = form[2];
        point = __dmul_rn(z < -most ? -most : z > most ? most : z, form[3]);
    }
    y[i] = (real)point;
}
