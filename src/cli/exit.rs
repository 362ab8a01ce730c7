//! Exit codes, in one place.
//!
//! A code says what the run found, not how it felt about it: 110 is a finding about documents, 2 is a mistake in the call.

/// Everything asked was answered, and nothing contradicts what is recorded.
pub const CONFORMS: u8 = 0;
/// A defect of sm121probe, a panic included.
pub const INTERNAL: u8 = 1;
/// The call or an input file is wrong.
pub const USAGE: u8 = 2;
/// The call selects nothing.
pub const NOTHING_SELECTED: u8 = 4;
/// The run does not conform: a verdict is wrong, an expectation does not hold, records disagree, batch and isolated verdicts
/// differ, or an emulated kernel broke a rule of PTX.
pub const DOES_NOT_CONFORM: u8 = 100;
/// A claim stands otherwise than recorded.
pub const CLAIMS_CONTRADICTED: u8 = 110;
/// An answer is worse than in the baseline, or gone.
pub const BASELINE_CONTRADICTED: u8 = 111;
/// A toolkit that was asked for is not there and cannot be fetched.
pub const TOOLKIT_MISSING: u8 = 120;
/// A device that was asked for is not there or cannot be used.
pub const DEVICE_MISSING: u8 = 121;
