//! The rules beyond bounds: races, undefined values, proxies, conflicting lanes, protected bytes.
//!
//! A rule observes accesses and decides nothing else: it neither changes a value nor chooses who runs, so a run without rules
//! computes the same. [`races`] argues from the PTX memory model why two accesses are ordered; [`undefined`] follows bits that
//! nobody wrote; [`lanes`], [`overlap`] and [`drafts`] concern the lanes of one warp. [`remarks`] and [`float_sums`] hold what is no violation.
//! Begin with [`races`].

pub(crate) mod drafts;
pub(crate) mod float_sums;
pub(crate) mod guard;
pub(crate) mod lanes;
pub(crate) mod maps_in_use;
pub(crate) mod noted;
pub(crate) mod order;
pub(crate) mod overlap;
pub(crate) mod races;
pub(crate) mod remarks;
pub(crate) mod same_copies;
pub(crate) mod shadow;
pub(crate) mod undefined;
pub(crate) mod widths;
