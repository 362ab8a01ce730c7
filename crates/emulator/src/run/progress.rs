//! The time that a launch takes, as it runs: a limit, and messages to a person who waits.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time before the first message, and between two.
const PATIENCE: [u64; 2] = [2000, 1000];

/// Receives the time since the launch began, and the warp instructions executed since.
type Notify = Box<dyn Fn(Duration, u64) + Send + Sync>;

/// The progress of one launch. Clusters that run on several threads share it.
pub struct Progress {
    begun: Instant,
    limit: Option<Duration>,
    notify: Option<Notify>,
    instructions: AtomicU64,
    /// CTAs that have ended apart from others, whose end counts only once all have ended.
    ended_apart: AtomicU64,
    /// Milliseconds after which the next message is due.
    due: AtomicU64,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Progress({:?}, {:?})", self.begun.elapsed(), self.limit)
    }
}

impl Progress {
    /// The progress of a launch that begins now. After `limit` it ends; `notify` is called when it has taken two seconds, and every
    /// second from then on.
    #[must_use]
    pub fn new(limit: Option<Duration>, notify: Option<Notify>) -> Self {
        let due = if notify.is_some() { PATIENCE[0] } else { u64::MAX };
        Self {
            begun: Instant::now(),
            limit,
            notify,
            instructions: AtomicU64::new(0),
            ended_apart: AtomicU64::new(0),
            due: AtomicU64::new(due),
        }
    }

    /// Whether a message was due.
    #[must_use]
    pub fn has_notified(&self) -> bool {
        self.notify.is_some() && self.due.load(Ordering::Relaxed) != PATIENCE[0]
    }

    /// Whether the limit is exceeded.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.begun.elapsed() > limit)
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Warp instructions executed so far, those of a discarded attempt to run on several threads included.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.instructions.load(Ordering::Relaxed)
    }

    /// CTAs that have ended apart from others, so far.
    pub(crate) fn ended_apart(&self) -> u64 {
        self.ended_apart.load(Ordering::Relaxed)
    }

    /// Counts CTAs that end apart from others.
    pub(crate) fn end_apart(&self, ctas: u32) {
        self.ended_apart.fetch_add(ctas.into(), Ordering::Relaxed);
    }

    /// Discards those that have ended apart, unless the time is over.
    pub(crate) fn discard_apart(&self) {
        if !self.is_over() {
            self.ended_apart.store(0, Ordering::Relaxed);
        }
    }

    /// Counts instructions; returns whether the limit is exceeded.
    pub(crate) fn advance(&self, instructions: u64) -> bool {
        let all = self.instructions.fetch_add(instructions, Ordering::Relaxed) + instructions;
        let passed = self.begun.elapsed();
        let (now, due) = (passed.as_millis() as u64, self.due.load(Ordering::Relaxed));
        if now >= due
            && let Some(notify) = &self.notify
            && self.due.compare_exchange(due, now + PATIENCE[1], Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            notify(passed, all);
        }
        self.limit.is_some_and(|limit| passed > limit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_message_comes_when_it_is_due_and_counts_all_instructions() {
        let reported = Arc::new(AtomicU64::new(0));
        let hears = Arc::clone(&reported);
        let notify: Notify = Box::new(move |_, all| hears.store(all, Ordering::Relaxed));
        let mut progress = Progress::new(Some(Duration::from_secs(1000)), Some(notify));
        assert!(!progress.advance(3) && !progress.has_notified() && !progress.is_over());
        // Two seconds later.
        progress.begun -= Duration::from_secs(2);
        assert!(!progress.advance(4) && progress.has_notified());
        assert!(!progress.advance(5));
        assert_eq!((reported.load(Ordering::Relaxed), progress.instructions()), (7, 12));
        progress.end_apart(3);
        progress.discard_apart();
        assert_eq!(progress.ended_apart(), 0);
        progress.end_apart(4);
        progress.begun -= Duration::from_secs(1000);
        assert!(progress.advance(0) && progress.is_over());
        progress.discard_apart();
        assert_eq!(progress.ended_apart(), 4);
        assert!(!Progress::new(None, None).advance(1));
    }
}
