//! What an access or a fence says of memory order (PTX ISA 8.5, 8.6): its semantics and its scope.

use ptx::Instruction;

use super::isa::Words;

/// The threads that a strong operation reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Cta,
    Cluster,
    Gpu,
    Sys,
}

impl Scope {
    const WORDS: [(&'static str, Self); 4] =
        [("cta", Self::Cta), ("cluster", Self::Cluster), ("gpu", Self::Gpu), ("sys", Self::Sys)];

    /// Takes the scope out of an instruction's words.
    fn take(words: &mut Words<'_>) -> Option<Self> {
        Self::WORDS.into_iter().filter(|(word, _)| words.take(word)).map(|(_, scope)| scope).last()
    }

    /// The scope among the modifiers of an instruction.
    pub(super) fn of(i: &Instruction) -> Option<Self> {
        Self::WORDS.into_iter().rfind(|(word, _)| i.has(word)).map(|(_, scope)| scope)
    }

    /// Whether it includes threads of other CTAs in any launch; `.cluster` does in clusters of several.
    pub(super) fn leaves_the_cta(self) -> bool {
        self >= Self::Gpu
    }
}

/// The semantics and the scope of a strong access or of a fence; relaxed when it neither acquires nor releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) acquires: bool,
    pub(super) releases: bool,
    pub(super) scope: Scope,
}

impl Order {
    pub(super) const fn relaxed(scope: Scope) -> Self {
        Self { acquires: false, releases: false, scope }
    }

    pub(super) const fn acquire(scope: Scope) -> Self {
        Self { acquires: true, releases: false, scope }
    }

    pub(super) const fn release(scope: Scope) -> Self {
        Self { acquires: false, releases: true, scope }
    }

    /// Takes semantics and scope out of an instruction's words; what it does not say is as in `default`.
    pub(super) fn take(words: &mut Words<'_>, default: Self) -> Self {
        let sem = words.one_of(&["relaxed", "acquire", "release", "acq_rel"]);
        let scope = Scope::take(words).unwrap_or(default.scope);
        match sem {
            None => Self { scope, ..default },
            Some(word) => Self {
                acquires: word.starts_with("acq"),
                releases: matches!(word, "release" | "acq_rel"),
                scope,
            },
        }
    }

    /// Takes the order of a load or a store; `None` for a weak one.
    pub(super) fn take_access(words: &mut Words<'_>) -> Option<Self> {
        words.take("weak");
        let marked = words.take("volatile") | words.take("mmio");
        let sem = words.one_of(&["relaxed", "acquire", "release"]);
        let scope = Scope::take(words);
        let scope = if marked { Scope::Sys } else { scope.unwrap_or(Scope::Gpu) };
        (marked || sem.is_some()).then_some(Self {
            acquires: sem == Some("acquire"),
            releases: sem == Some("release"),
            scope,
        })
    }
}

/// What an access does to its location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    /// It reads.
    Load,
    /// It begins a new release sequence.
    Store,
    /// It reads, and continues the release sequence.
    Modify,
}

/// A strong access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strong {
    pub(super) order: Order,
    pub(super) touch: Touch,
}

/// A fence between memory operations of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fence {
    pub(super) order: Order,
    /// `fence.sc` and `membar`: such fences are ordered among each other, in the order in which they run.
    pub(super) sequential: bool,
}

impl Fence {
    /// The fence that `fence` or `membar` without `.proxy` is.
    pub(super) fn of(i: &Instruction) -> Self {
        let both = |scope| Order { acquires: true, releases: true, scope };
        if i.opcode == "membar" {
            // `.cta`, `.gl` and `.sys`; `membar` is a synonym of `fence.sc`.
            let scope = if i.has("gl") { Scope::Gpu } else { Scope::of(i).unwrap_or(Scope::Sys) };
            return Self { order: both(scope), sequential: true };
        }
        let scope = Scope::of(i).unwrap_or(Scope::Sys);
        let order = match (i.has("acquire"), i.has("release")) {
            (true, false) => Order::acquire(scope),
            (false, true) => Order::release(scope),
            _ => both(scope),
        };
        Self { order, sequential: i.has("sc") }
    }
}
