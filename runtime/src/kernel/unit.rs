//! temp
use super::Real;
/// g
#[derive(Clone, Copy)]
pub enum Groups<'a> {
    /// u
    Uniform(usize),
    /// o
    Offsets(&'a [usize], usize),
}
impl Groups<'_> {
    fn r(&self, u: usize) -> std::ops::Range<usize> {
        match self {
            Self::Uniform(w) => u * w..(u + 1) * w,
            Self::Offsets(o, w) => o[u] * w..o[u + 1] * w,
        }
    }
}
/// m
pub fn mul_unit<T: Real>(x: &[T], s: &[T], g: Groups<'_>, y: &mut [T]) {
    for (u, s) in s.iter().enumerate() {
        for (y, x) in y[g.r(u)].iter_mut().zip(&x[g.r(u)]) {
            *y = *s * *x;
        }
    }
}
/// d
pub fn dot_unit<T: Real>(a: &[T], b: &[T], g: Groups<'_>, y: &mut [T]) {
    for (u, y) in y.iter_mut().enumerate() {
        let mut s = 0.0;
        for (a, b) in a[g.r(u)].iter().zip(&b[g.r(u)]) {
            s += a.to_f64() * b.to_f64();
        }
        *y = T::from_f64(s);
    }
}
/// a
pub fn add_scaled<T: Real>(q: &[T], h: &[T], s: &[T], g: Groups<'_>, y: &mut [T]) {
    for (u, s) in s.iter().enumerate() {
        for ((y, h), q) in y[g.r(u)].iter_mut().zip(&h[g.r(u)]).zip(&q[g.r(u)]) {
            *y = s.mul_add(*h, *q);
        }
    }
}
/// k
pub fn keep<T: Real>(x: &[T], c: &[u8], when: bool, g: Groups<'_>, y: &mut [T]) {
    for (u, c) in c.iter().enumerate() {
        if (*c != 0) == when {
            y[g.r(u)].copy_from_slice(&x[g.r(u)]);
        } else {
            y[g.r(u)].fill(T::ZERO);
        }
    }
}
/// s
pub fn select<T: Real>(c: &[u8], a: &[T], b: &[T], g: Groups<'_>, y: &mut [T]) {
    for (u, c) in c.iter().enumerate() {
        y[g.r(u)].copy_from_slice(if *c != 0 { &a[g.r(u)] } else { &b[g.r(u)] });
    }
}
