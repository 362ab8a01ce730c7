//! Memory order of an access or a fence (PTX ISA 8.5, 8.6): semantics and scope.

use ptx::Instruction;

use crate::front::words::Words;

/// The set of threads with which a strong operation can synchronise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Cta,
    Cluster,
    Gpu,
    Sys,
}

impl Scope {
    const WORDS: [(&'static str, Self); 4] =
        [("cta", Self::Cta), ("cluster", Self::Cluster), ("gpu", Self::Gpu), ("sys", Self::Sys)];

    /// Consumes the scope modifier of an instruction.
    fn take(words: &mut Words<'_>) -> Option<Self> {
        Self::WORDS.into_iter().filter(|(word, _)| words.take(word)).map(|(_, scope)| scope).last()
    }

    /// The scope among the modifiers of an instruction.
    pub(crate) fn named_in(i: &Instruction) -> Option<Self> {
        Self::WORDS.into_iter().rfind(|(word, _)| i.has(word)).map(|(_, scope)| scope)
    }

    /// Whether it includes threads of other CTAs in any launch; `.cluster` does so only in clusters of several CTAs.
    pub(crate) fn leaves_the_cta(self) -> bool {
        self >= Self::Gpu
    }
}

/// Semantics and scope of a strong access or a fence; relaxed if it neither acquires nor releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) acquires: bool,
    pub(crate) releases: bool,
    pub(crate) scope: Scope,
}

impl Order {
    pub(crate) const fn relaxed(scope: Scope) -> Self {
        Self { acquires: false, releases: false, scope }
    }

    pub(crate) const fn acquire(scope: Scope) -> Self {
        Self { acquires: true, releases: false, scope }
    }

    pub(crate) const fn release(scope: Scope) -> Self {
        Self { acquires: false, releases: true, scope }
    }

    /// Consumes the semantics and scope modifiers of an instruction; `default` supplies those that are absent.
    pub(crate) fn take(words: &mut Words<'_>, default: Self) -> Self {
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

    /// Consumes the order of a load or store; `None` if it is weak.
    pub(crate) fn take_access(words: &mut Words<'_>) -> Option<Self> {
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

/// The effect of an access on its location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// A read.
    Load,
    /// A write, which begins a new release sequence.
    Store,
    /// A read-modify-write, which continues the release sequence.
    Modify,
    /// A read-modify-write whose old value nobody uses: the thread cannot know which writes came before it.
    Reduce,
}

/// A strong access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Strong {
    pub(crate) order: Order,
    pub(crate) touch: Touch,
}

/// A fence between memory operations of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) order: Order,
    /// `fence.sc` and `membar`: these fences are totally ordered, in execution order.
    pub(crate) sequential: bool,
}

impl Fence {
    /// The fence of a `fence` or `membar` without `.proxy`.
    pub(crate) fn from_instruction(i: &Instruction) -> Self {
        let both = |scope| Order { acquires: true, releases: true, scope };
        if i.opcode == "membar" {
            // `.cta`, `.gl` and `.sys`; `membar` is a synonym of `fence.sc`.
            let scope = if i.has("gl") { Scope::Gpu } else { Scope::named_in(i).unwrap_or(Scope::Sys) };
            return Self { order: both(scope), sequential: true };
        }
        let scope = Scope::named_in(i).unwrap_or(Scope::Sys);
        let order = match (i.has("acquire"), i.has("release")) {
            (true, false) => Order::acquire(scope),
            (false, true) => Order::release(scope),
            _ => both(scope),
        };
        Self { order, sequential: i.has("sc") }
    }
}
