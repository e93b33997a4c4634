//! A kernel and a product whose results are known: a device that computes nothing, or something else, shows before a model is on it.

use std::rc::Rc;

use super::device::{Device, DeviceMatrix, MatrixProduct};
use super::memory::DevicePool;

/// Runs a kernel and a product on a device, and compares their results with what they must be. The numbers are small integers, which every
/// precision has.
///
/// # Errors
/// The failure of the device, or what it computes in the place of what.
pub fn check(device: &Rc<dyn Device>) -> Result<(), String> {
    device.prepare(&[]);
    let pool = DevicePool::new(device.clone());
    let (a, b) = (pool.upload(&[1.0_f32, 2.0, 3.0, 4.0]), pool.upload(&[5.0_f32, 6.0, 7.0, 8.0]));
    let product = pool.upload(&[0.0_f32; 4]);
    let factors = [&a, &b].map(|matrix| DeviceMatrix::straight(matrix.at(), 2));
    pool.multiply::<f32>(MatrixProduct::new(factors[0], factors[1], product.at(), [2; 3]));
    pool.add(&a, &b);
    let found = [("a product", &product, [19.0, 22.0, 43.0, 50.0]), ("a sum", &b, [6.0, 8.0, 10.0, 12.0])]
        .map(|(what, array, right)| (what, pool.download::<f32>(array), right));
    if let Some(failure) = pool.device().failure() {
        return Err(failure);
    }
    match found.iter().find(|(_, found, right)| found != right) {
        Some((what, found, right)) => {
            Err(format!("{} can't be used: it computes {what} as {found:?}, which is {right:?}", device.name()))
        }
        None => Ok(()),
    }
}
