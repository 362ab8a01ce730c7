//! Counts elementary steps of algorithms whose cost must grow as their input does. Only tests count; elsewhere it costs nothing.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Adds elementary steps to the count of this thread.
#[inline(always)]
pub(crate) fn count(steps: u64) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + steps);
    #[cfg(not(test))]
    let _ = steps;
}

/// The steps that `f` counts on this thread.
#[cfg(test)]
pub(crate) fn steps_in(f: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    f();
    STEPS.get() - before
}
