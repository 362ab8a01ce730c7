//! The functions of cuFFT that are served.

use std::ffi::c_int;

use super::handle::{self, create, execute, make, set, settings, unsupported, use_area};
use super::plan::{Kind, Number, Placement, Plan, Type};
use super::{Answer, Failure};
use crate::device::state::device;
use crate::libraries::answer::answered;
use crate::program::caller::{called_function, runtime_is_12};
use crate::program::pointers::{In, Out};

/// Defines functions.
macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?) $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $ty),*) -> c_int {
                answered::<Failure>(stringify!($name), || $body)
            }
        )*

        /// Their names.
        pub(in super::super) const SERVED: &[&str] = &[$(stringify!($name)),*];
    };
}

/// What a program says about one side of a plan.
struct Given<T> {
    around: In<T>,
    stride: i64,
    distance: i64,
}

fn given<T>(around: In<T>, stride: impl Into<i64>, distance: impl Into<i64>) -> Given<T> {
    Given { around, stride: stride.into(), distance: distance.into() }
}

/// A list of `rank` sizes.
fn sizes<T: Copy + Into<i64>>(list: In<T>, rank: c_int) -> Result<Vec<i64>, Failure> {
    let rank =
        usize::try_from(rank).ok().filter(|rank| (1..=3).contains(rank)).ok_or(Failure::INVALID_VALUE)?;
    // SAFETY: the header demands a list of this length.
    (0..rank).map(|n| Ok(unsafe { list.nth(n) }?.into())).collect()
}

/// A plan with placements, which count if the program gives both.
fn many<T: Copy + Into<i64>>(
    (rank, list): (c_int, In<T>),
    [input, output]: [Given<T>; 2],
    ty: Type,
    batch: i64,
) -> Result<Plan, Failure> {
    let size = sizes(list, rank)?;
    let placement = |given: Given<T>| {
        let Given { around, stride, distance } = given;
        Ok::<_, Failure>(Placement { around: sizes(around, rank)?, stride, distance })
    };
    let placements = match (input.around.address() == 0, output.around.address() == 0) {
        (true, true) => None,
        (false, false) => Some([placement(input)?, placement(output)?]),
        _ => return Err(Failure::INVALID_VALUE),
    };
    Plan::new(&size, ty, batch, placements)
}

/// A plan without placements.
fn dense(size: &[c_int], ty: c_int, batch: c_int) -> Result<Plan, Failure> {
    let size: Vec<_> = size.iter().map(|size| i64::from(*size)).collect();
    Plan::new(&size, Type::from_number(ty)?, batch.into(), None)
}

/// Makes a handle with a plan.
fn planned(handle: Out<c_int>, plan: Result<Plan, Failure>) -> Answer {
    let number = create(handle)?;
    plan.and_then(|plan| make(number, plan)).map(|_| ()).inspect_err(|_| {
        let _ = handle::destroy(number);
    })
}

/// Gives a handle its plan, and the program the bytes of its work area.
fn made(handle: c_int, plan: Result<Plan, Failure>, work: Out<usize>) -> Answer {
    settings(handle)?;
    Ok(work.set(make(handle, plan?)? as usize)?)
}

/// The bytes of the work area of a plan.
fn sized(plan: Result<Plan, Failure>, work: Out<usize>) -> Answer {
    Ok(work.set(plan?.work_size() as usize)?)
}

/// Runs the plan of a handle by a function for a type. cuFFT does what the plan says.
fn typed(handle: c_int, ty: Type, input: u64, output: u64, direction: c_int) -> Answer {
    let plan = settings(handle)?.plan.ok_or(Failure::INVALID_PLAN)?;
    let direction = match (ty == plan.ty, ty.kind) {
        (true, _) => direction,
        (false, of_function) => {
            let what =
                "is called with a plan of another type; the transform is that of the plan, as in cuFFT";
            device()?.results.remark(format!("{} {what}", called_function()));
            if of_function == Kind::Complex { direction } else { -1 }
        }
    };
    execute(handle, input, output, direction)
}

/// The version of the library that a program finds.
fn version() -> c_int {
    if runtime_is_12() { 11_401 } else { 12_500 }
}

/// A part of the version by its `libraryPropertyType`.
fn property(part: c_int, value: Out<c_int>) -> Answer {
    let part = match part {
        0 => version() / 1000,
        1 => version() / 100 % 10,
        2 => version() % 100,
        _ => return Err(Failure::INVALID_TYPE),
    };
    Ok(value.set(part)?)
}

/// The place of a property of plans that has no effect here.
fn plan_property(number: c_int) -> Result<usize, Failure> {
    match number {
        // NVFFT_PLAN_PROPERTY_INT64_PATIENT_JIT, and …MAX_NUM_HOST_THREADS.
        1 | 2 => Ok(number as usize - 1),
        3 | 4 => Err(unsupported("the properties BLUESTEIN_ONLY and DISABLE_FMA; leave them out")),
        _ => Err(Failure::INVALID_VALUE),
    }
}

functions! {
    cufftCreate(handle: Out<c_int>) create(handle).map(|_| ());
    cufftDestroy(handle: c_int) handle::destroy(handle);
    cufftGetVersion(value: Out<c_int>) Ok(value.set(version())?);
    cufftGetProperty(part: c_int, value: Out<c_int>) property(part, value);
    cufftSetStream(handle: c_int, stream: u64) set(handle, |settings| settings.stream = stream);
    cufftSetAutoAllocation(handle: c_int, is_automatic: c_int) set(handle, |settings| settings.has_own_area = is_automatic == 0);
    cufftSetWorkArea(handle: c_int, area: u64) use_area(handle, area);
    cufftXtSetWorkAreaPolicy(handle: c_int, policy: c_int, work: Out<usize>) {
        if !(0..=2).contains(&policy) {
            return Err(Failure::INVALID_VALUE);
        }
        if let Some(plan) = settings(handle)?.plan {
            work.set_if(plan.work_size() as usize);
        }
        Ok(())
    };
    cufftGetSize(handle: c_int, work: Out<usize>) {
        let plan = settings(handle)?.plan.ok_or(Failure::INVALID_PLAN)?;
        Ok(work.set(plan.work_size() as usize)?)
    };
    cufftSetPlanPropertyInt64(handle: c_int, property: c_int, value: i64) {
        let place = plan_property(property)?;
        set(handle, |settings| settings.properties[place] = value)
    };
    cufftGetPlanPropertyInt64(handle: c_int, property: c_int, value: Out<i64>)
        Ok(value.set(settings(handle)?.properties[plan_property(property)?])?);
    cufftResetPlanProperty(handle: c_int, property: c_int) {
        let place = plan_property(property)?;
        set(handle, |settings| settings.properties[place] = 0)
    };
    cufftPlan1d(handle: Out<c_int>, n: c_int, ty: c_int, batch: c_int) planned(handle, dense(&[n], ty, batch));
    cufftPlan2d(handle: Out<c_int>, n: c_int, m: c_int, ty: c_int) planned(handle, dense(&[n, m], ty, 1));
    cufftPlan3d(handle: Out<c_int>, n: c_int, m: c_int, l: c_int, ty: c_int) planned(handle, dense(&[n, m, l], ty, 1));
    cufftPlanMany(
        handle: Out<c_int>, rank: c_int, size: In<c_int>, around_in: In<c_int>, stride_in: c_int, distance_in: c_int, around_out: In<c_int>,
        stride_out: c_int, distance_out: c_int, ty: c_int, batch: c_int,
    ) planned(handle, many((rank, size), [given(around_in, stride_in, distance_in), given(around_out, stride_out, distance_out)], Type::from_number(ty)?, batch.into()));
    cufftMakePlan1d(handle: c_int, n: c_int, ty: c_int, batch: c_int, work: Out<usize>) made(handle, dense(&[n], ty, batch), work);
    cufftMakePlan2d(handle: c_int, n: c_int, m: c_int, ty: c_int, work: Out<usize>) made(handle, dense(&[n, m], ty, 1), work);
    cufftMakePlan3d(handle: c_int, n: c_int, m: c_int, l: c_int, ty: c_int, work: Out<usize>) made(handle, dense(&[n, m, l], ty, 1), work);
    cufftMakePlanMany(
        handle: c_int, rank: c_int, size: In<c_int>, around_in: In<c_int>, stride_in: c_int, distance_in: c_int, around_out: In<c_int>,
        stride_out: c_int, distance_out: c_int, ty: c_int, batch: c_int, work: Out<usize>,
    ) made(handle, many((rank, size), [given(around_in, stride_in, distance_in), given(around_out, stride_out, distance_out)], Type::from_number(ty)?, batch.into()), work);
    cufftMakePlanMany64(
        handle: c_int, rank: c_int, size: In<i64>, around_in: In<i64>, stride_in: i64, distance_in: i64, around_out: In<i64>, stride_out: i64,
        distance_out: i64, ty: c_int, batch: i64, work: Out<usize>,
    ) made(handle, many((rank, size), [given(around_in, stride_in, distance_in), given(around_out, stride_out, distance_out)], Type::from_number(ty)?, batch), work);
    cufftXtMakePlanMany(
        handle: c_int, rank: c_int, size: In<i64>, around_in: In<i64>, stride_in: i64, distance_in: i64, of_input: u32, around_out: In<i64>,
        stride_out: i64, distance_out: i64, of_output: u32, batch: i64, work: Out<usize>, computation: u32,
    ) {
        let ty = Type::from_data_types(of_input, of_output, computation)?;
        made(handle, many((rank, size), [given(around_in, stride_in, distance_in), given(around_out, stride_out, distance_out)], ty, batch), work)
    };
    cufftEstimate1d(n: c_int, ty: c_int, batch: c_int, work: Out<usize>) sized(dense(&[n], ty, batch), work);
    cufftEstimate2d(n: c_int, m: c_int, ty: c_int, work: Out<usize>) sized(dense(&[n, m], ty, 1), work);
    cufftEstimate3d(n: c_int, m: c_int, l: c_int, ty: c_int, work: Out<usize>) sized(dense(&[n, m, l], ty, 1), work);
    cufftEstimateMany(
        rank: c_int, size: In<c_int>, around_in: In<c_int>, stride_in: c_int, distance_in: c_int, around_out: In<c_int>, stride_out: c_int,
        distance_out: c_int, ty: c_int, batch: c_int, work: Out<usize>,
    ) sized(many((rank, size), [given(around_in, stride_in, distance_in), given(around_out, stride_out, distance_out)], Type::from_number(ty)?, batch.into()), work);
    cufftGetSize1d(handle: c_int, n: c_int, ty: c_int, batch: c_int, work: Out<usize>) {
        settings(handle)?;
        sized(dense(&[n], ty, batch), work)
    };
    cufftGetSize2d(handle: c_int, n: c_int, m: c_int, ty: c_int, work: Out<usize>) {
        settings(handle)?;
        sized(dense(&[n, m], ty, 1), work)
    };
    cufftGetSize3d(handle: c_int, n: c_int, m: c_int, l: c_int, ty: c_int, work: Out<usize>) {
        settings(handle)?;
        sized(dense(&[n, m, l], ty, 1), work)
    };
    cufftGetSizeMany(
        handle: c_int, rank: c_int, size: In<c_int>, around_in: In<c_int>, stride_in: c_int, distance_in: c_int, around_out: In<c_int>,
        stride_out: c_int, distance_out: c_int, ty: c_int, batch: c_int, work: Out<usize>,
    ) {
        settings(handle)?;
        sized(many((rank, size), [given(around_in, stride_in, distance_in), given(around_out, stride_out, distance_out)], Type::from_number(ty)?, batch.into()), work)
    };
    cufftGetSizeMany64(
        handle: c_int, rank: c_int, size: In<i64>, around_in: In<i64>, stride_in: i64, distance_in: i64, around_out: In<i64>, stride_out: i64,
        distance_out: i64, ty: c_int, batch: i64, work: Out<usize>,
    ) {
        settings(handle)?;
        sized(many((rank, size), [given(around_in, stride_in, distance_in), given(around_out, stride_out, distance_out)], Type::from_number(ty)?, batch), work)
    };
    cufftXtGetSizeMany(
        handle: c_int, rank: c_int, size: In<i64>, around_in: In<i64>, stride_in: i64, distance_in: i64, of_input: u32, around_out: In<i64>,
        stride_out: i64, distance_out: i64, of_output: u32, batch: i64, work: Out<usize>, computation: u32,
    ) {
        settings(handle)?;
        let ty = Type::from_data_types(of_input, of_output, computation)?;
        sized(many((rank, size), [given(around_in, stride_in, distance_in), given(around_out, stride_out, distance_out)], ty, batch), work)
    };
    cufftExecC2C(handle: c_int, input: u64, output: u64, direction: c_int) typed(handle, Type::new(Kind::Complex, Number::F32), input, output, direction);
    cufftExecR2C(handle: c_int, input: u64, output: u64) typed(handle, Type::new(Kind::RealToComplex, Number::F32), input, output, -1);
    cufftExecC2R(handle: c_int, input: u64, output: u64) typed(handle, Type::new(Kind::ComplexToReal, Number::F32), input, output, 1);
    cufftExecZ2Z(handle: c_int, input: u64, output: u64, direction: c_int) typed(handle, Type::new(Kind::Complex, Number::F64), input, output, direction);
    cufftExecD2Z(handle: c_int, input: u64, output: u64) typed(handle, Type::new(Kind::RealToComplex, Number::F64), input, output, -1);
    cufftExecZ2D(handle: c_int, input: u64, output: u64) typed(handle, Type::new(Kind::ComplexToReal, Number::F64), input, output, 1);
    cufftXtExec(handle: c_int, input: u64, output: u64, direction: c_int) execute(handle, input, output, direction);
}
