//! The functions of cublasLt that are served, by the kernels of cuBLAS. There is one algorithm, without a workspace; a handle is one of cuBLAS.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

use self::matmul::Plan;
use self::objects::{ALGORITHM, LAYOUT, MATMUL, Object, PREFERENCE, TRANSFORM, layout as of_layout};
use super::functions::{property, status_name, version};
use super::handle::{self, Answer, Call, Failure, answered, answered_with};
use crate::program::pointers::{Out, put_host_bytes};

mod matmul;
mod objects;

/// The names of all functions of this file.
pub(super) const NAMES: &[&[&str]] =
    &[PLAIN, OF_MATMUL, OF_LAYOUT, OF_PREFERENCE, OF_TRANSFORM, WITHOUT_HANDLE, WITH_HANDLE];

/// The functions that return no status.
const PLAIN: &[&str] =
    &["cublasLtGetVersion", "cublasLtGetCudartVersion", "cublasLtGetStatusName", "cublasLtGetStatusString"];

#[unsafe(no_mangle)]
extern "C" fn cublasLtGetVersion() -> usize {
    version() as usize
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtGetCudartVersion() -> usize {
    version() as usize / 100 * 10
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtGetStatusName(status: c_int) -> *const c_char {
    status_name(status).as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtGetStatusString(status: c_int) -> *const c_char {
    status_name(status).as_ptr()
}

/// Defines the functions of a kind of descriptor: with the arguments of those that make one, and the attributes that these are.
macro_rules! descriptors {
    ($list:ident $kind:ident: $create:ident $init:ident $destroy:ident $set:ident $get:ident ($($arg:ident: $ty:ty = $number:expr),*)) => {
        #[unsafe(no_mangle)]
        extern "C" fn $create(place: Out<u64> $(, $arg: $ty)*) -> c_int {
            answered(stringify!($create), || $kind.create(place, &[$(($number, u64::from($arg))),*]))
        }

        #[unsafe(no_mangle)]
        extern "C" fn $init(object: u64, len: usize $(, $arg: $ty)*) -> c_int {
            answered(stringify!($init), || $kind.init(object, len, &[$(($number, u64::from($arg))),*]))
        }

        #[unsafe(no_mangle)]
        extern "C" fn $destroy(object: u64) -> c_int {
            answered(stringify!($destroy), || $kind.destroy(object))
        }

        #[unsafe(no_mangle)]
        extern "C" fn $set(object: u64, attribute: u32, buffer: u64, len: usize) -> c_int {
            answered(stringify!($set), || $kind.set(object, attribute, buffer, len))
        }

        #[unsafe(no_mangle)]
        extern "C" fn $get(object: u64, attribute: u32, buffer: u64, len: usize, written: Out<usize>) -> c_int {
            answered(stringify!($get), || $kind.get(object, attribute, (buffer, len), written))
        }

        const $list: &[&str] =
            &[stringify!($create), stringify!($init), stringify!($destroy), stringify!($set), stringify!($get)];
    };
}

descriptors! {
    OF_MATMUL MATMUL: cublasLtMatmulDescCreate cublasLtMatmulDescInit_internal cublasLtMatmulDescDestroy cublasLtMatmulDescSetAttribute
    cublasLtMatmulDescGetAttribute (compute: u32 = objects::matmul::COMPUTE, scale: u32 = objects::matmul::SCALE)
}

descriptors! {
    OF_LAYOUT LAYOUT: cublasLtMatrixLayoutCreate cublasLtMatrixLayoutInit_internal cublasLtMatrixLayoutDestroy cublasLtMatrixLayoutSetAttribute
    cublasLtMatrixLayoutGetAttribute (
        ty: u32 = of_layout::TYPE, rows: u64 = of_layout::ROWS, columns: u64 = of_layout::COLUMNS, leading: u64 = of_layout::LEADING
    )
}

descriptors! {
    OF_PREFERENCE PREFERENCE: cublasLtMatmulPreferenceCreate cublasLtMatmulPreferenceInit_internal cublasLtMatmulPreferenceDestroy
    cublasLtMatmulPreferenceSetAttribute cublasLtMatmulPreferenceGetAttribute ()
}

descriptors! {
    OF_TRANSFORM TRANSFORM: cublasLtMatrixTransformDescCreate cublasLtMatrixTransformDescInit_internal cublasLtMatrixTransformDescDestroy
    cublasLtMatrixTransformDescSetAttribute cublasLtMatrixTransformDescGetAttribute (scale: u32 = 0)
}

/// The capacity of the cache of heuristics, which the program sets and reads back.
static CAPACITY: AtomicUsize = AtomicUsize::new(8192);

/// Defines functions without a handle.
macro_rules! without_handle {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?) $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> c_int {
                answered(stringify!($name), || $body)
            }
        )*
        const WITHOUT_HANDLE: &[&str] = &[$(stringify!($name)),*];
    };
}

without_handle! {
    cublasLtCreate(handle: Out<u64>) handle::create(handle);
    cublasLtGetProperty(part: c_int, value: Out<c_int>) property(part, value);
    cublasLtHeuristicsCacheGetCapacity(capacity: Out<usize>) Ok(capacity.set(CAPACITY.load(Ordering::Relaxed))?);
    cublasLtHeuristicsCacheSetCapacity(capacity: usize) {
        CAPACITY.store(capacity, Ordering::Relaxed);
        Ok(())
    };
    // Nothing is logged.
    cublasLtLoggerSetCallback(_callback: u64) Ok(());
    cublasLtLoggerSetFile(_file: u64) Ok(());
    cublasLtLoggerOpenFile(_path: u64) Ok(());
    cublasLtLoggerSetLevel(level: c_int) if (0..=5).contains(&level) { Ok(()) } else { Err(Failure::INVALID_VALUE) };
    cublasLtLoggerSetMask(_mask: c_int) Ok(());
    cublasLtLoggerForceDisable() Ok(());
    cublasLtMatmulAlgoCapGetAttribute(algorithm: u64, attribute: u32, buffer: u64, len: usize, written: Out<usize>)
        capability(algorithm, attribute, (buffer, len), written);
    cublasLtMatmulAlgoConfigSetAttribute(algorithm: u64, attribute: u32, buffer: u64, len: usize)
        // The number of the algorithm is only read.
        if attribute == 0 { Err(Failure::INVALID_VALUE) } else { ALGORITHM.set(algorithm, attribute, buffer, len) };
    cublasLtMatmulAlgoConfigGetAttribute(algorithm: u64, attribute: u32, buffer: u64, len: usize, written: Out<usize>)
        ALGORITHM.get(algorithm, attribute, (buffer, len), written);
}

/// Defines functions with a handle.
macro_rules! with_handle {
    ($($name:ident($call:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(handle: u64 $(, $arg: $ty)*) -> c_int {
                answered_with(stringify!($name), handle, false, |$call| $body)
            }
        )*
        const WITH_HANDLE: &[&str] = &[$(stringify!($name)),*];
    };
}

with_handle! {
    cublasLtDestroy(call) handle::destroy(call.handle);
    cublasLtMatmul(
        call, descriptor: u64, alpha: u64, a: u64, of_a: u64, b: u64, of_b: u64, beta: u64, c: u64, of_c: u64, d: u64, of_d: u64,
        algorithm: u64, _workspace: u64, _len: usize, stream: u64,
    ) {
        matmul::algorithm(algorithm)?;
        Plan::from_descriptors(call, descriptor, [of_a, of_b, of_c, of_d])?.run(call, stream, [alpha, beta], [a, b, c, d])
    };
    cublasLtMatrixTransform(
        call, descriptor: u64, alpha: u64, a: u64, of_a: u64, beta: u64, b: u64, of_b: u64, c: u64, of_c: u64, stream: u64,
    ) matmul::transform(call, descriptor, stream, [alpha, beta], [(a, of_a), (b, of_b), (c, of_c)]);
    cublasLtMatmulAlgoGetIds(
        call, compute: u32, scale: u32, a: u32, b: u32, c: u32, d: u32, wanted: c_int, ids: Out<c_int>, count: Out<c_int>,
    ) {
        if wanted <= 0 || ids.is_null() {
            return Err(Failure::INVALID_VALUE);
        }
        count.set(0)?;
        matmul::kernel(call, compute, scale, [a, b, c, d])?;
        ids.set(0)?;
        Ok(count.set(1)?)
    };
    cublasLtMatmulAlgoInit(call, compute: u32, scale: u32, a: u32, b: u32, c: u32, d: u32, id: c_int, algorithm: u64) {
        if id != 0 || algorithm == 0 {
            return Err(Failure::INVALID_VALUE);
        }
        matmul::kernel(call, compute, scale, [a, b, c, d])?;
        ALGORITHM.init(algorithm, ALGORITHM_LEN, &[])
    };
    cublasLtMatmulAlgoGetHeuristic(
        call, descriptor: u64, a: u64, b: u64, c: u64, d: u64, preference: u64, wanted: c_int, results: u64, count: Out<c_int>,
    ) heuristic(call, (descriptor, [a, b, c, d]), preference, wanted, results, count);
    cublasLtMatmulAlgoGetHeuristicForStream(
        call, descriptor: u64, a: u64, b: u64, c: u64, d: u64, preference: u64, wanted: c_int, results: u64, count: Out<c_int>, _stream: u64,
    ) heuristic(call, (descriptor, [a, b, c, d]), preference, wanted, results, count);
    cublasLtMatmulAlgoCheck(call, descriptor: u64, a: u64, b: u64, c: u64, d: u64, algorithm: u64, result: u64)
        check(call, (descriptor, [a, b, c, d]), algorithm, result);
    cublasLtMatmulAlgoCheckForStream(
        call, descriptor: u64, a: u64, b: u64, c: u64, d: u64, algorithm: u64, result: u64, _stream: u64,
    ) check(call, (descriptor, [a, b, c, d]), algorithm, result);
}

/// The bytes of a `cublasLtMatmulAlgo_t`, with which a `cublasLtMatmulHeuristicResult_t` begins.
const ALGORITHM_LEN: usize = 64;

/// What follows the algorithm of a result: no workspace, success, one wave, and what is reserved.
fn rest() -> [u8; 32] {
    let mut rest = [0; 32];
    rest[12..16].copy_from_slice(&1f32.to_le_bytes());
    rest
}

/// The one algorithm for a product.
fn heuristic(
    call: &Call,
    (descriptor, layouts): (u64, [u64; 4]),
    preference: u64,
    wanted: c_int,
    results: u64,
    count: Out<c_int>,
) -> Answer {
    if wanted <= 0 || results == 0 {
        return Err(Failure::INVALID_VALUE);
    }
    count.set(0)?;
    Object::of_kind(&PREFERENCE, preference)?;
    Plan::from_descriptors(call, descriptor, layouts)?;
    let mut result = ALGORITHM.made(&[]);
    result.resize(ALGORITHM_LEN, 0);
    result.extend_from_slice(&rest());
    // SAFETY: the header demands room for at least one result.
    unsafe { put_host_bytes(results, &result) }?;
    Ok(count.set(1)?)
}

/// Checks an algorithm for a product.
fn check(call: &Call, (descriptor, layouts): (u64, [u64; 4]), algorithm: u64, result: u64) -> Answer {
    if result == 0 {
        return Err(Failure::INVALID_VALUE);
    }
    Object::of_kind(&ALGORITHM, algorithm)?;
    Plan::from_descriptors(call, descriptor, layouts)?;
    // SAFETY: the header demands room for a result.
    Ok(unsafe { put_host_bytes(result + ALGORITHM_LEN as u64, &rest()) }?)
}

/// What the algorithm can, by a `cublasLtMatmulAlgoCapAttributes_t`.
fn capability(algorithm: u64, attribute: u32, buffer: (u64, usize), written: Out<usize>) -> Answer {
    Object::of_kind(&ALGORITHM, algorithm)?;
    let value: u32 = match attribute {
        // Batches, results elsewhere than C, and lists of addresses.
        3 | 4 | 21 => 1,
        // No parts of sums, triangles, choice of tiles and stages, other orders, negative distances, emulation.
        0..=2 | 5..=7 | 10 | 13 | 14 | 20 | 22 | 23 => 0,
        // Pointer modes of the host and the device.
        11 => 3,
        // DEFAULT, RELU, BIAS and GELU.
        12 => 1 | 2 | 4 | 32,
        // Any address of an element.
        16..=19 => 1,
        // Fused multiply-adds.
        15 => return objects::put(&1u64.to_le_bytes(), buffer, written),
        _ => return Err(Failure::INVALID_VALUE),
    };
    let is_list = matches!(attribute, 6 | 13);
    if !is_list && buffer.1 > 4 {
        return Err(Failure::INVALID_VALUE);
    }
    objects::put(&value.to_le_bytes(), buffer, written)
}
