//! temp
use super::Real;
/// a
pub struct AdamW {
    /// l
    pub learning_rate: f64,
    /// b
    pub beta1: f64,
    /// b
    pub beta2: f64,
    /// e
    pub epsilon: f64,
    /// w
    pub weight_decay: f64,
    /// g
    pub gradient_scale: f64,
}
/// s
pub fn squared_norm<T: Real>(x: &[T]) -> f64 {
    x.iter().map(|x| x.to_f64() * x.to_f64()).sum()
}
/// a
pub fn adamw<T: Real>(w: &mut [T], g: &[T], m: &mut [T], v: &mut [T], r: &AdamW, step: u64) {
    let c1 = 1.0 - r.beta1.powi(step as i32);
    let c2 = 1.0 - r.beta2.powi(step as i32);
    for n in 0..w.len() {
        let g = g[n].to_f64() * r.gradient_scale;
        let mm = r.beta1 * m[n].to_f64() + (1.0 - r.beta1) * g;
        let vv = r.beta2 * v[n].to_f64() + (1.0 - r.beta2) * g * g;
        let x = w[n].to_f64() * (1.0 - r.learning_rate * r.weight_decay);
        m[n] = T::from_f64(mm);
        v[n] = T::from_f64(vv);
        w[n] = T::from_f64(x - r.learning_rate * (mm / c1) / ((vv / c2).sqrt() + r.epsilon));
    }
}
