//! temp
use super::Real;
/// p
pub fn predict<T: Real>(logits: &[T]) -> (u32, f64) {
    if logits.len() == 1 {
        let p = 1.0 / (1.0 + (-logits[0].to_f64()).exp());
        return if p >= 0.5 { (1, p) } else { (0, 1.0 - p) };
    }
    let mut best = 0;
    for (n, x) in logits.iter().enumerate() {
        if *x > logits[best] {
            best = n;
        }
    }
    let total: f64 = logits.iter().map(|x| (x.to_f64() - logits[best].to_f64()).exp()).sum();
    (best as u32, 1.0 / total)
}
/// o
pub fn one<T: Real>(logits: &[T], label: u32) -> f64 {
    if logits.len() == 1 {
        let x = logits[0].to_f64();
        return x.max(0.0) - x * f64::from(label) + (-x.abs()).exp().ln_1p();
    }
    let m = logits.iter().fold(f64::NEG_INFINITY, |m, x| m.max(x.to_f64()));
    let total: f64 = logits.iter().map(|x| (x.to_f64() - m).exp()).sum();
    total.ln() + m - logits[label as usize].to_f64()
}
fn w<T: Real>(weights: Option<&[T]>, n: usize) -> f64 {
    weights.map_or(1.0, |w| w[n].to_f64())
}
fn ce<T: Real>(x: &[T], labels: &[u32], weights: Option<&[T]>) -> f64 {
    let c = x.len() / labels.len();
    let total: f64 = (0..labels.len()).map(|n| w(weights, n)).sum();
    let sum: f64 = labels.iter().enumerate().map(|(n, l)| w(weights, n) * one(&x[n * c..(n + 1) * c], *l)).sum();
    sum / total
}
/// c
pub fn cross_entropy<T: Real>(x: &[T], labels: &[u32], weights: Option<&[T]>) -> f64 {
    ce(x, labels, weights)
}
/// b
pub fn binary_cross_entropy<T: Real>(x: &[T], labels: &[u32], weights: Option<&[T]>) -> f64 {
    ce(x, labels, weights)
}
/// g
pub fn cross_entropy_grad<T: Real>(x: &[T], labels: &[u32], weights: Option<&[T]>, dy: T, dx: &mut [T]) {
    let c = x.len() / labels.len();
    let total: f64 = (0..labels.len()).map(|n| w(weights, n)).sum();
    for (n, l) in labels.iter().enumerate() {
        let row = &x[n * c..(n + 1) * c];
        let m = row.iter().fold(f64::NEG_INFINITY, |m, x| m.max(x.to_f64()));
        let sum: f64 = row.iter().map(|x| (x.to_f64() - m).exp()).sum();
        for (k, x) in row.iter().enumerate() {
            let p = (x.to_f64() - m).exp() / sum - if k == *l as usize { 1.0 } else { 0.0 };
            dx[n * c + k] = T::from_f64(p * w(weights, n) / total * dy.to_f64());
        }
    }
}
/// g
pub fn binary_cross_entropy_grad<T: Real>(x: &[T], labels: &[u32], weights: Option<&[T]>, dy: T, dx: &mut [T]) {
    let total: f64 = (0..labels.len()).map(|n| w(weights, n)).sum();
    for (n, l) in labels.iter().enumerate() {
        let p = 1.0 / (1.0 + (-x[n].to_f64()).exp());
        dx[n] = T::from_f64((p - f64::from(*l)) * w(weights, n) / total * dy.to_f64());
    }
}
