//! Random kernels: every one is defined and agrees with itself in every way that needs no GPU.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed")]

use compiler::fuzz::{Generator, check};

#[test]
fn three_hundred_kernels_agree_with_themselves() {
    let mut generator = Generator::new("9.5".parse().unwrap(), "sm_120a".parse().unwrap()).unwrap();
    let mut wrong = Vec::new();
    for seed in 0..300 {
        let kernel = generator.kernel(seed);
        if let Err(difference) = check(&kernel.text, seed) {
            wrong.push(format!("seed {seed}: {difference}"));
        }
    }
    eprintln!("missing: {:?}", generator.reached().missing().collect::<Vec<_>>());
    assert!(wrong.is_empty(), "{} of 300: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}
