//! temp
use super::Real;
/// g
pub fn gather<T: Real>(table: &[T], ids: &[u32], d: usize, y: &mut [T]) {
    for (y, i) in y.chunks_exact_mut(d).zip(ids) {
        y.copy_from_slice(&table[*i as usize * d..(*i as usize + 1) * d]);
    }
}
/// s
pub fn scatter_add<T: Real>(dy: &[T], ids: &[u32], d: usize, t: &mut [T]) {
    for (dy, i) in dy.chunks_exact(d).zip(ids) {
        for (t, dy) in t[*i as usize * d..(*i as usize + 1) * d].iter_mut().zip(dy) {
            *t += *dy;
        }
    }
}
/// f
pub fn frame<T: Real>(x: &[T], o: &[usize], s: &[T], e: &[T], y: &mut [T]) {
    let d = s.len();
    let mut at = 0;
    for w in o.windows(2) {
        let n = (w[1] - w[0]) * d;
        y[at..at + d].copy_from_slice(s);
        y[at + d..at + d + n].copy_from_slice(&x[w[0] * d..w[1] * d]);
        y[at + d + n..at + 2 * d + n].copy_from_slice(e);
        at += n + 2 * d;
    }
}
/// f
pub fn frame_grad<T: Real>(dy: &[T], o: &[usize], dx: &mut [T], s: &mut [T], e: &mut [T]) {
    let d = s.len();
    s.fill(T::ZERO);
    e.fill(T::ZERO);
    let mut at = 0;
    for w in o.windows(2) {
        let n = (w[1] - w[0]) * d;
        for c in 0..d {
            s[c] += dy[at + c];
            e[c] += dy[at + d + n + c];
        }
        dx[w[0] * d..w[1] * d].copy_from_slice(&dy[at + d..at + d + n]);
        at += n + 2 * d;
    }
}
/// e
pub fn expand<T: Real>(x: &[T], rows: usize, y: &mut [T]) {
    for r in 0..rows {
        y[r * x.len()..(r + 1) * x.len()].copy_from_slice(x);
    }
}
/// c
pub fn concat<T: Real>(a: &[T], b: &[T], m: usize, n: usize, y: &mut [T]) {
    for ((y, a), b) in y.chunks_exact_mut(m + n).zip(a.chunks_exact(m)).zip(b.chunks_exact(n)) {
        y[..m].copy_from_slice(a);
        y[m..].copy_from_slice(b);
    }
}
/// s
pub fn slice<T: Real>(x: &[T], d: usize, start: usize, width: usize, y: &mut [T]) {
    for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(d)) {
        y.copy_from_slice(&x[start..start + width]);
    }
}
/// p
pub fn pad<T: Real>(x: &[T], d: usize, start: usize, width: usize, y: &mut [T]) {
    y.fill(T::ZERO);
    for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(d)) {
        y[start..start + d].copy_from_slice(x);
    }
}
/// p
pub fn pair<T: Real>(x: &[T], d: usize, y: &mut [T]) {
    let (u, v) = x.split_at(x.len() / 2);
    for ((y, u), v) in y.chunks_exact_mut(4 * d).zip(u.chunks_exact(d)).zip(v.chunks_exact(d)) {
        for c in 0..d {
            y[c] = u[c];
            y[d + c] = v[c];
            y[2 * d + c] = u[c] * v[c];
            y[3 * d + c] = (u[c] - v[c]).abs();
        }
    }
}
/// p
pub fn pair_grad<T: Real>(x: &[T], dy: &[T], d: usize, dx: &mut [T]) {
    let half = x.len() / 2;
    let (u, v) = x.split_at(half);
    let (du, dv) = dx.split_at_mut(half);
    for (n, dy) in dy.chunks_exact(4 * d).enumerate() {
        for c in 0..d {
            let i = n * d + c;
            let s = if u[i] > v[i] { T::ONE } else if u[i] < v[i] { -T::ONE } else { T::ZERO };
            du[i] = dy[c] + dy[2 * d + c] * v[i] + s * dy[3 * d + c];
            dv[i] = dy[d + c] + dy[2 * d + c] * u[i] - s * dy[3 * d + c];
        }
    }
}
