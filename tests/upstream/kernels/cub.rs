//! CUB: scan, reduce, sort. Integers, so results are exact.

use crate::bounds::equal;
use crate::compile::Source;
use crate::cuda::CUDA_13_5;
use crate::judge::{Expected, Kernel, Origin};
use crate::replay::{Buffers, Element::I32};

static SOURCE: Source = Source {
    program: "cub",
    package: None,
    includes: &[],
    cuda: CUDA_13_5,
    fixed_shared: false,
    interface: None,
    options: &[],
};

const fn kernel(
    name: &'static str,
    case: &'static str,
    file: &'static str,
    reference: fn(&Buffers) -> Result<f64, String>,
) -> Kernel {
    Kernel {
        name,
        source: Origin::Cuda(&SOURCE),
        case,
        file,
        reference,
        bound: "equal",
        expected: Expected::Right,
    }
}

pub(crate) static KERNELS: &[Kernel] = &[
    // Its mbarriers are initialised before a relaxed cluster barrier only, which is reported as a remark.
    kernel("cub/scan", "scan", "cub/device/device_scan.cuh", scan),
    kernel("cub/reduce", "reduce", "cub/device/device_reduce.cuh", sum),
    kernel("cub/reduce_large", "reduce_large", "cub/device/device_reduce.cuh", sum),
    kernel("cub/sort", "sort", "cub/device/device_radix_sort.cuh", sorted),
    kernel("cub/sort_large", "sort_large", "cub/device/device_radix_sort.cuh", sorted),
    kernel("cub/select", "select", "cub/device/device_select.cuh", selected),
    kernel("cub/histogram", "histogram", "cub/device/device_histogram.cuh", histogram),
    kernel("cub/run_lengths", "run_lengths", "cub/device/device_run_length_encode.cuh", run_lengths),
    kernel("cub/segmented_reduce", "segmented_reduce", "cub/device/device_segmented_reduce.cuh", segmented),
    kernel("cub/merge_sort", "merge_sort", "cub/device/device_merge_sort.cuh", sorted),
];

fn scan(b: &Buffers) -> Result<f64, String> {
    let before = |sum: &mut f64, x: f64| Some(std::mem::replace(sum, *sum + x));
    let wanted: Vec<f64> = b.before("x", I32).into_iter().scan(0.0, before).collect();
    equal(&b.after("y", I32), &wanted)
}

fn sum(b: &Buffers) -> Result<f64, String> {
    equal(&b.after("y", I32), &[b.before("x", I32).iter().sum()])
}

fn sorted(b: &Buffers) -> Result<f64, String> {
    let mut wanted = b.before("x", I32);
    wanted.sort_by(f64::total_cmp);
    equal(&b.after("y", I32), &wanted)
}

/// The values below 100, in order, and their number.
fn selected(b: &Buffers) -> Result<f64, String> {
    let wanted: Vec<f64> = b.before("x", I32).into_iter().filter(|x| *x < 100.0).collect();
    equal(&b.after("count", I32), &[wanted.len() as f64])?;
    equal(&b.after("y", I32)[..wanted.len()], &wanted)
}

/// 16 bins of 64 values each.
fn histogram(b: &Buffers) -> Result<f64, String> {
    let mut wanted = vec![0.0; 16];
    b.before("x", I32).iter().for_each(|x| wanted[(*x / 64.0) as usize] += 1.0);
    equal(&b.after("y", I32), &wanted)
}

fn run_lengths(b: &Buffers) -> Result<f64, String> {
    let (mut values, mut lengths): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for x in b.before("x", I32) {
        match lengths.last_mut() {
            Some(length) if values.last() == Some(&x) => *length += 1.0,
            _ => {
                values.push(x);
                lengths.push(1.0);
            }
        }
    }
    equal(&b.after("count", I32), &[values.len() as f64])?;
    equal(&b.after("y", I32)[..values.len()], &values)?;
    equal(&b.after("lengths", I32)[..lengths.len()], &lengths)
}

/// Sums of 10 segments of 300.
fn segmented(b: &Buffers) -> Result<f64, String> {
    let wanted: Vec<f64> = b.before("x", I32).chunks(300).map(|segment| segment.iter().sum()).collect();
    equal(&b.after("y", I32), &wanted)
}
