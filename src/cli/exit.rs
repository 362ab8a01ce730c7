//! Exit codes, in one place.
//!
//! A code names the kind of result: 110 is a finding about documents, 2 is a mistake in the call.

/// Something was checked, all that was asked was checked, and it conforms.
pub const CONFORMS: u8 = 0;
/// A defect of sm121probe, including a panic.
pub const INTERNAL: u8 = 1;
/// The call or an input file is wrong.
pub const USAGE: u8 = 2;
/// Nothing was checked, or less than was asked: something was refused, is missing, or was not selected
/// ([`crate::record::Completeness`]).
pub const INCOMPLETE: u8 = 4;
/// The run does not conform: a verdict is wrong, an expectation does not hold, records disagree, batch and isolated verdicts
/// differ, or an emulated kernel violated a rule of PTX.
pub const DOES_NOT_CONFORM: u8 = 100;
/// A claim's status differs from its recorded status.
pub const CLAIMS_CONTRADICTED: u8 = 110;
/// An answer is worse than in the baseline, or missing.
pub const BASELINE_CONTRADICTED: u8 = 111;
/// A requested toolkit is missing and cannot be fetched.
pub const TOOLKIT_MISSING: u8 = 120;
/// A requested device is missing or cannot be used.
pub const DEVICE_MISSING: u8 = 121;
