//! Discrete Fourier transforms of dense numbers of 64 bits, unnormalized. They are computed by rustfft without vector instructions, so that every
//! machine gives the same bits.

use std::sync::{LazyLock, Mutex, PoisonError};

use rustfft::num_complex::Complex;
use rustfft::{FftDirection, FftPlannerScalar};

use super::plan::{Kind, Plan};

/// Keeps the factors of sizes that were used.
static PLANNER: LazyLock<Mutex<FftPlannerScalar<f64>>> =
    LazyLock::new(|| Mutex::new(FftPlannerScalar::new()));

/// Transforms `data`, lines of `len` numbers with a distance of `step`, in place.
fn along(data: &mut [Complex<f64>], len: usize, step: usize, direction: FftDirection) {
    if len == 1 {
        return;
    }
    let fft = PLANNER.lock().unwrap_or_else(PoisonError::into_inner).plan_fft(len, direction);
    if step == 1 {
        fft.process(data);
        return;
    }
    let mut lines = vec![Complex::default(); len * step];
    for block in data.chunks_exact_mut(len * step) {
        for (line, numbers) in lines.chunks_exact_mut(len).enumerate() {
            numbers.iter_mut().enumerate().for_each(|(n, number)| *number = block[n * step + line]);
        }
        fft.process(&mut lines);
        for (line, numbers) in lines.chunks_exact(len).enumerate() {
            numbers.iter().enumerate().for_each(|(n, number)| block[n * step + line] = *number);
        }
    }
}

/// The transforms of a plan. `numbers` are those of its input, dense, complex ones as pairs; so is the result.
pub(super) fn transformed(plan: &Plan, numbers: &[f64], is_forward: bool) -> Vec<f64> {
    let [slow, middle, fast] = plan.size.map(|size| size as usize);
    let half = fast / 2 + 1;
    let complex = || numbers.chunks_exact(2).map(|part| Complex::new(part[0], part[1])).collect::<Vec<_>>();
    let pairs = |data: &[Complex<f64>]| data.iter().flat_map(|number| [number.re, number.im]).collect();
    let outer = |data: &mut [Complex<f64>], columns: usize, direction| {
        along(data, middle, columns, direction);
        along(data, slow, middle * columns, direction);
    };
    match plan.ty.kind {
        Kind::Complex => {
            let direction = if is_forward { FftDirection::Forward } else { FftDirection::Inverse };
            let mut data = complex();
            along(&mut data, fast, 1, direction);
            outer(&mut data, fast, direction);
            pairs(&data)
        }
        Kind::RealToComplex => {
            let mut rows: Vec<_> = numbers.iter().map(|number| Complex::new(*number, 0.0)).collect();
            along(&mut rows, fast, 1, FftDirection::Forward);
            let mut data: Vec<_> = rows.chunks_exact(fast).flat_map(|row| row[..half].to_vec()).collect();
            outer(&mut data, half, FftDirection::Forward);
            pairs(&data)
        }
        // The other half of each row is the conjugate of the one that is there. What the program has in the imaginary parts of numbers that
        // must be real (the first, and of even sizes the middle) does not count, as in cuFFT.
        Kind::ComplexToReal => {
            let mut data = complex();
            outer(&mut data, half, FftDirection::Inverse);
            let mut rows: Vec<Complex<f64>> = Vec::with_capacity(data.len() / half * fast);
            for row in data.chunks_exact(half) {
                let of = |n: usize| match n {
                    n if n == 0 || 2 * n == fast => Complex::new(row[n].re, 0.0),
                    n if n < half => row[n],
                    n => row[fast - n].conj(),
                };
                rows.extend((0..fast).map(of));
            }
            along(&mut rows, fast, 1, FftDirection::Inverse);
            rows.iter().map(|number| number.re).collect()
        }
    }
}
