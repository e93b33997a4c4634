//! temp
use super::Real;
/// a
#[derive(Clone, Copy, PartialEq)]
pub enum At {
    /// f
    First,
    /// l
    Last,
}
fn rows(o: &[usize]) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + '_ {
    o.windows(2).enumerate().map(|(r, w)| (r, w[0]..w[1]))
}
/// m
pub fn mean<T: Real>(x: &[T], o: &[usize], d: usize, y: &mut [T]) {
    for (r, p) in rows(o) {
        let n = T::from_f64(1.0 / p.len().max(1) as f64);
        for c in 0..d {
            let mut s = T::ZERO;
            for t in p.clone() {
                s += x[t * d + c];
            }
            y[r * d + c] = s * n;
        }
    }
}
/// m
pub fn mean_grad<T: Real>(dy: &[T], o: &[usize], d: usize, dx: &mut [T]) {
    for (r, p) in rows(o) {
        let n = T::from_f64(1.0 / p.len().max(1) as f64);
        for t in p.clone() {
            for c in 0..d {
                dx[t * d + c] = dy[r * d + c] * n;
            }
        }
    }
}
/// c
pub fn cumulative_mean<T: Real>(x: &[T], o: &[usize], d: usize, y: &mut [T]) {
    for (_, p) in rows(o) {
        for c in 0..d {
            let mut s = T::ZERO;
            for (n, t) in p.clone().enumerate() {
                s += x[t * d + c];
                y[t * d + c] = s * T::from_f64(1.0 / (n + 1) as f64);
            }
        }
    }
}
/// c
pub fn cumulative_mean_grad<T: Real>(dy: &[T], o: &[usize], d: usize, dx: &mut [T]) {
    for (_, p) in rows(o) {
        for c in 0..d {
            let mut s = T::ZERO;
            for (n, t) in p.clone().enumerate().rev() {
                s += dy[t * d + c] * T::from_f64(1.0 / (n + 1) as f64);
                dx[t * d + c] = s;
            }
        }
    }
}
/// t
pub fn take_position<T: Real>(x: &[T], o: &[usize], d: usize, at: At, y: &mut [T]) {
    for (r, p) in rows(o) {
        let t = if at == At::First { p.start } else { p.end - 1 };
        y[r * d..(r + 1) * d].copy_from_slice(&x[t * d..(t + 1) * d]);
    }
}
/// t
pub fn take_position_grad<T: Real>(dy: &[T], o: &[usize], d: usize, at: At, dx: &mut [T]) {
    dx.fill(T::ZERO);
    for (r, p) in rows(o) {
        let t = if at == At::First { p.start } else { p.end - 1 };
        dx[t * d..(t + 1) * d].copy_from_slice(&dy[r * d..(r + 1) * d]);
    }
}
/// m
pub fn max<T: Real>(x: &[T], o: &[usize], d: usize, y: &mut [T]) {
    for (r, p) in rows(o) {
        for c in 0..d {
            let mut s = x[p.start * d + c];
            for t in p.clone() {
                s = x[t * d + c].or_larger(s);
            }
            y[r * d + c] = s;
        }
    }
}
/// m
pub fn max_grad<T: Real>(x: &[T], dy: &[T], o: &[usize], d: usize, dx: &mut [T]) {
    dx.fill(T::ZERO);
    for (r, p) in rows(o) {
        for c in 0..d {
            let mut b = p.start;
            for t in p.clone() {
                if x[t * d + c] > x[b * d + c] {
                    b = t;
                }
            }
            dx[b * d + c] = dy[r * d + c];
        }
    }
}
