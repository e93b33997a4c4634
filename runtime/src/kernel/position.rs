//! temp
use super::Real;
/// t
#[derive(Debug, Default)]
pub struct PositionTables<T>(std::marker::PhantomData<T>);
/// k
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// r
    Rope,
    /// q
    XposQuery,
    /// k
    XposKey,
}
/// r
pub struct Rotation {
    /// k
    pub kind: Kind,
    /// h
    pub heads: usize,
    /// e
    pub head_width: usize,
    /// t
    pub transpose: bool,
}
/// r
pub fn rotate<T: Real>(_t: &mut PositionTables<T>, r: &Rotation, x: &[T], o: &[usize], origin: Option<&[usize]>, y: &mut [T]) {
    let (e, c) = (r.head_width, r.head_width / 2);
    for (row, w) in o.windows(2).enumerate() {
        for t in w[0]..w[1] {
            let p = (t - w[0] + origin.map_or(0, |o| o[row])) as f64;
            for i in 0..c {
                let a = p * 10000f64.powf(-(i as f64) / c as f64);
                let z = (2.0 * i as f64 / e as f64 + 0.4) / 1.4;
                let s = match r.kind {
                    Kind::Rope => 1.0,
                    Kind::XposQuery => z.powf(p / 512.0),
                    Kind::XposKey => z.powf(-p / 512.0),
                };
                let (co, si) = (T::from_f64(a.cos() * s), T::from_f64(if r.transpose { -a.sin() } else { a.sin() } * s));
                for h in 0..r.heads {
                    let at = t * r.heads * e + h * e + 2 * i;
                    let (a, b) = (x[at], x[at + 1]);
                    y[at] = a * co - b * si;
                    y[at + 1] = b * co + a * si;
                }
            }
        }
    }
}
