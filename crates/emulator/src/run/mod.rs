//! Warps, CTAs, clusters, grids: who runs, when, and on which state.
//!
//! [`launch`] begins a stream of grids; [`schedule`] picks the warp that runs next, from a seed; [`warp`] runs its rows and keeps
//! its diverged lanes, [`frames`] their calls; [`livelock`] proves that a launch never ends; [`directed`] lets the sides of a
//! recorded conflict take turns; [`watchpoint`] tells who accessed certain bytes; [`cores`] runs clusters that do not communicate one by one or
//! on several threads, with the scheduler's result or none: [`apart`] and [`touched`] say whether they communicate.
//! Invariant: a seed determines a run. Begin with [`launch`], then [`schedule`].

pub(crate) mod apart;
pub(crate) mod cluster;
pub(crate) mod cores;
pub(crate) mod cta;
pub(crate) mod deadlock;
pub(crate) mod device_launch;
pub(crate) mod directed;
pub(crate) mod frames;
pub(crate) mod grid_workspace;
pub(crate) mod inlined;
pub(crate) mod journal;
pub(crate) mod launch;
pub(crate) mod livelock;
pub(crate) mod machine;
pub(crate) mod parties;
pub(crate) mod progress;
pub(crate) mod random;
pub(crate) mod resident;
pub(crate) mod schedule;
pub(crate) mod scratch;
pub(crate) mod spare;
pub(crate) mod stream;
pub(crate) mod touched;
pub(crate) mod turns;
pub(crate) mod vectors;
pub(crate) mod warp;
pub(crate) mod watched;
pub(crate) mod watchpoint;
pub(crate) mod world;
