//! Reads header, entries and matrix instructions of PTX text and skips everything else: foreign PTX may be newer than any
//! parser, and as large as 50 MB.

use std::collections::HashSet;

use ptx::arch::{PtxIsa, Suffix, Target};
use ptx::scan::Cursor;

use super::entry::{KERNELS_LIMIT, Kernel, Trouble};

/// The facts read from PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) isa: PtxIsa,
    pub(super) number: u16,
    pub(super) suffix: Suffix,
    pub(super) kernels: Vec<Kernel>,
}

/// Whether a file that starts with `head` is PTX: `.version` is the first directive of every module.
pub(super) fn is_ptx(head: &[u8]) -> bool {
    let mut cursor = Cursor::new(head);
    cursor.blank();
    cursor.rest().starts_with(b".version") && cursor.rest().get(8).is_some_and(u8::is_ascii_whitespace)
}

/// Whether a file that starts with `head` has nothing but comments there, so that what it is shows later.
pub(super) fn is_only_comments(head: &[u8]) -> bool {
    let mut cursor = Cursor::new(head);
    cursor.blank();
    // A comment may have been cut after its first character.
    head.contains(&b'/') && matches!(cursor.rest(), b"" | b"/")
}

/// Reads `text`; bytes after its first NUL are padding.
///
/// # Errors
/// [`Trouble::Damaged`] without a valid `.version` and `.target`; [`Trouble::TooLarge`] for too many kernels.
pub(super) fn facts(text: &[u8]) -> Result<Facts, Trouble> {
    let text = &text[..text.iter().position(|b| *b == 0).unwrap_or(text.len())];
    let mut walk = Walk::new(text);
    let (mut isa, mut target) = (None, None);
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut known = HashSet::new();
    // The kernel whose header is being read, and the one whose body is.
    let (mut head, mut body) = (None, None);
    while let Some(directive) = walk.next() {
        match directive {
            Directive::Version => isa = isa.or_else(|| walk.cursor.word().parse().ok()),
            Directive::Target => target = target.or_else(|| Target::written(walk.cursor.word())),
            Directive::Entry => {
                let name = walk.cursor.word();
                if kernels.len() >= KERNELS_LIMIT {
                    return Err(Trouble::TooLarge(format!("it has more than {KERNELS_LIMIT} kernels")));
                }
                // A kernel may be declared before it is defined.
                head = (!name.is_empty() && known.insert(name)).then(|| {
                    kernels.push(Kernel { name: name.to_owned(), ..Kernel::default() });
                    kernels.len() - 1
                });
            }
            Directive::Threads => {
                let threads = walk.numbers();
                if let Some(kernel) = head.and_then(|i| kernels.get_mut(i)) {
                    kernel.max_threads = threads;
                }
            }
            Directive::Function => (head, body) = (None, None),
            Directive::Open => body = head.take().or(body),
            Directive::End => body = None,
            Directive::Instruction(class, effect) => {
                if let Some(kernel) = body.and_then(|i| kernels.get_mut(i)) {
                    *kernel.instructions.entry(class).or_default() += 1;
                    match effect {
                        Effect::None => {}
                        Effect::Trap => kernel.effects.traps = true,
                        Effect::Call(name) if kernel.effects.calls.len() < CALLS => {
                            kernel.effects.calls.insert(name.to_owned());
                        }
                        Effect::Call(_) | Effect::Other => kernel.effects.others = true,
                    }
                }
            }
        }
    }
    let isa = isa.ok_or_else(|| Trouble::Damaged("the PTX has no `.version` that can be read".to_owned()))?;
    let target =
        target.ok_or_else(|| Trouble::Damaged("the PTX has no `.target` that can be read".to_owned()))?;
    Ok(Facts { isa, number: target.number, suffix: target.suffix, kernels })
}

/// The directives and statements of interest.
enum Directive<'a> {
    Version,
    Target,
    Entry,
    /// `.maxntid` or `.reqntid`.
    Threads,
    /// `.func`.
    Function,
    /// The opening brace of a body, or of a block inside it.
    Open,
    /// The closing brace of a body.
    End,
    /// An instruction, with its class.
    Instruction(&'static str, Effect<'a>),
}

/// The effect of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect<'a> {
    /// It computes in registers, or reads and writes parameters, constants and the stack.
    None,
    Trap,
    /// A call of the function of this name.
    Call(&'a str),
    Other,
}

/// The most functions of a kernel that are listed.
const CALLS: usize = 16;

/// Instructions without an effect, by the first part of their name (PTX ISA, chapter 9).
const HARMLESS: &str = "abs activemask add addc and bfe bfi bfind bmsk bra brev brx clz cnot copysign cos cvt cvta div dp2a dp4a ex2 \
    exit fma fns getctarank isspacep lg2 lop3 mad mad24 madc mapa max min mov mul mul24 neg not or pmevent popc prmt rcp rem ret \
    rsqrt sad selp set setp shf shl shr sin slct sqrt sub subc szext tanh testp xor";

/// Returns the effect of a statement, which is no declaration.
fn effect<'a>(name: &str, operands: &'a [u8]) -> Effect<'a> {
    let mut parts = name.split('.');
    let (first, space) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match first {
        "trap" | "brkpt" => Effect::Trap,
        "call" => callee(operands).map_or(Effect::Other, Effect::Call),
        "ld" if matches!(space, "param" | "const" | "local") => Effect::None,
        "st" if matches!(space, "param" | "local") => Effect::None,
        _ if HARMLESS.split_ascii_whitespace().any(|harmless| harmless == first) => Effect::None,
        _ => Effect::Other,
    }
}

/// Returns the function of a call: `vprintf` of `(retval0), vprintf, (param0, param1)`; `None` for a register or other text.
fn callee(operands: &[u8]) -> Option<&str> {
    let operands = operands.trim_ascii();
    let name = match operands.strip_prefix(b"(") {
        Some(rest) => {
            let end = rest.iter().position(|b| *b == b')')?;
            rest[end + 1..].trim_ascii_start().strip_prefix(b",")?.trim_ascii_start()
        }
        None => operands,
    };
    let end =
        name.iter().position(|b| !b.is_ascii_alphanumeric() && !b"_$".contains(b)).unwrap_or(name.len());
    let rest = name[end..].trim_ascii_start();
    let plain = end > 0 && end <= LONGEST_LABEL && (rest.is_empty() || rest.starts_with(b","));
    std::str::from_utf8(&name[..end]).ok().filter(|_| plain)
}

/// Instructions that characterise a kernel: prefix, class, and class with `.block_scale` (PTX ISA, `mma` with `.block_scale`,
/// `tcgen05.mma`).
const CLASSES: [(&str, &str, &str); 6] = [
    ("mma.", "mma", "mma.block_scale"),
    ("wmma.mma.", "wmma.mma", "wmma.mma"),
    ("wgmma.mma_async.", "wgmma.mma_async", "wgmma.mma_async"),
    ("tcgen05.mma.", "tcgen05.mma", "tcgen05.mma.block_scale"),
    ("call", "call", "call"),
    ("trap", "trap", "trap"),
];

/// Maximum length of a label, so that an unterminated name is not read again at every brace.
const LONGEST_LABEL: usize = 256;

/// The class of every other instruction.
const OTHER: &str = "other";

/// Returns class and effect of a statement; `None` for a declaration.
fn class(statement: &[u8]) -> Option<(&'static str, Effect<'_>)> {
    let (first, rest) = statement.split_first()?;
    let text = match first {
        b'.' => return None,
        // Skip the predicate.
        b'@' => rest.iter().position(u8::is_ascii_whitespace).map(|end| rest[end..].trim_ascii_start())?,
        _ => statement,
    };
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let (name, operands) = text.split_at(end);
    let name = std::str::from_utf8(name).unwrap_or_default();
    let known = CLASSES.iter().find(|(start, ..)| name.starts_with(start));
    let class =
        known.map_or(OTHER, |(_, plain, scaled)| if name.contains(".block_scale") { scaled } else { plain });
    Some((class, effect(name, operands)))
}

const DIRECTIVES: [(&[u8], Directive<'static>); 6] = [
    (b".version", Directive::Version),
    (b".target", Directive::Target),
    (b".entry", Directive::Entry),
    (b".maxntid", Directive::Threads),
    (b".reqntid", Directive::Threads),
    (b".func", Directive::Function),
];

/// Iterates over the directives and statements of a text.
struct Walk<'a> {
    cursor: Cursor<'a>,
    /// Start of the current statement.
    statement: usize,
    /// Number of open blocks.
    depth: u32,
}

impl<'a> Walk<'a> {
    const fn new(text: &'a [u8]) -> Self {
        Self { cursor: Cursor::new(text), statement: 0, depth: 0 }
    }

    /// Returns the statement so far, without leading comments, line directives and labels.
    fn statement(&mut self) -> &'a [u8] {
        let start = self.statement.min(self.cursor.at);
        let mut inner = Cursor::new(self.cursor.since(start));
        loop {
            inner.blank();
            let rest = inner.rest();
            let word = rest.iter().take(LONGEST_LABEL);
            let label = word.take_while(|b| b.is_ascii_alphanumeric() || b"_$%".contains(b)).count();
            if rest.starts_with(b".loc") || rest.starts_with(b".file") {
                inner.behind(b"\n");
            } else if label > 0 && rest.get(label) == Some(&b':') && rest.get(label + 1) != Some(&b':') {
                inner.at += label + 1;
            } else {
                // Do not skip the same text again.
                self.statement = start + inner.at;
                return rest;
            }
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    /// Reads comma-separated numbers and returns their product.
    fn numbers(&mut self) -> Option<u32> {
        let mut product = 1_u32;
        loop {
            product = product.checked_mul(self.cursor.word().parse().ok()?)?;
            self.cursor.blank();
            if self.rest().first() != Some(&b',') {
                return Some(product);
            }
            self.cursor.at += 1;
        }
    }

    fn next(&mut self) -> Option<Directive<'a>> {
        loop {
            self.cursor.at +=
                self.rest().iter().position(|b| matches!(b, b'.' | b'/' | b'"' | b'{' | b'}' | b';'))?;
            match self.rest() {
                [b'/', b'/' | b'*', ..] => self.cursor.blank(),
                [b'{', ..] => {
                    let statement = self.statement();
                    // The brace belongs to an initializer or to operands.
                    let inside =
                        if self.depth == 0 { statement.contains(&b'=') } else { !statement.is_empty() };
                    self.cursor.at += 1;
                    if !inside {
                        (self.statement, self.depth) = (self.cursor.at, self.depth + 1);
                        return Some(Directive::Open);
                    }
                }
                [b'}', ..] => {
                    let inside = self.depth == 0 || !self.statement().is_empty();
                    self.cursor.at += 1;
                    if !inside {
                        (self.statement, self.depth) = (self.cursor.at, self.depth - 1);
                        if self.depth == 0 {
                            return Some(Directive::End);
                        }
                    }
                }
                [b';', ..] => {
                    let statement = self.statement();
                    self.cursor.at += 1;
                    self.statement = self.cursor.at;
                    if self.depth > 0
                        && let Some((class, effect)) = class(statement)
                    {
                        return Some(Directive::Instruction(class, effect));
                    }
                }
                [b'"', ..] => {
                    self.cursor.at += 1;
                    self.cursor.behind(b"\"");
                }
                [b'.', ..] => {
                    let starts =
                        !self.cursor.before().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
                    if starts {
                        let rest = self.rest();
                        let found = DIRECTIVES.into_iter().find(|(name, _)| {
                            rest.starts_with(name)
                                && rest.get(name.len()).is_some_and(u8::is_ascii_whitespace)
                        });
                        if let Some((name, directive)) = found {
                            self.cursor.at += name.len();
                            return Some(directive);
                        }
                    }
                    self.cursor.at += 1;
                }
                _ => self.cursor.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// made by hand; { mma.sync }
.version 9.0
.target sm_120a
.address_size 64
.global .align 4 .b32 table[2] = {1, 2};
.func (.param .b32 r) helper(.param .b32 x) { mma.sync.aligned.m16n8k16 {a}, {b}, {c}, {d}; ret; }
.visible .entry scaled(.param .u64 p)
.maxntid 128, 1, 1
{
    .reg .b32 %r<9>;
    .loc 1 12 3
    // begin inline asm
    mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e2m1.f32.ue8m0
        {%r1, %r2}, {%r3}, {%r4}, {%r5}, {%r6}, {0, 0}, {%r7}, {0, 0};
    // end inline asm
    {
    again: @!p bra again;
    }
$L__BB0_1:
    { call.uni (r), helper, (x); }
    @%p1 trap;
    ret;
}
.entry plain() { mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {a, b}, {c}, {d}, {e}; ret; }
";

    #[test]
    fn instructions_are_counted_kernel_by_kernel() {
        let facts = facts(TEXT.as_bytes()).unwrap();
        let of = |i: usize| -> Vec<(&str, u32)> {
            facts.kernels[i].instructions.iter().map(|(class, n)| (*class, *n)).collect()
        };
        assert_eq!(facts.kernels.len(), 2);
        assert_eq!(of(0), [("call", 1), ("mma.block_scale", 1), ("other", 2), ("trap", 1)]);
        assert_eq!(of(1), [("mma", 1), ("other", 1)]);
        assert_eq!(facts.kernels[0].max_threads, Some(128));
    }

    #[test]
    fn effects_of_a_kernel_are_read() {
        let of = |body: &str| {
            let text = format!(
                ".version 9.0\n.target sm_90\n.entry e(.param .u64 p)\n{{\n.reg .b32 r;\n{body}\nret;\n}}\n"
            );
            let effects = facts(text.as_bytes()).unwrap().kernels[0].effects.clone();
            (effects.others, effects.traps, effects.calls.into_iter().collect::<Vec<_>>().join(" "))
        };
        let none = || (false, false, String::new());
        assert_eq!(of(""), none());
        assert_eq!(
            of("ld.param.u64 a, [p]; @q bra done; add.s32 r, r, 1; st.local.u32 [s], r; done:"),
            none()
        );
        assert_eq!(of("@%p1 trap;"), (false, true, String::new()));
        let call = "{ .param .b32 x; call.uni (x),\n vprintf,\n (a, b); }";
        assert_eq!(of(call), (false, false, "vprintf".to_owned()));
        assert_eq!(of("call f, (a);\ncall.uni g;"), (false, false, "f g".to_owned()));
        for other in [
            "call (x), %rd1, (a), proto;",
            "call ;",
            "call (x;",
            "st.global.u32 [a], r;",
            "ld.u32 r, [a];",
            "red.add.u32 [a], r;",
            "bar.sync 0;",
            "new.instruction r;",
        ] {
            assert!(of(other).0, "{other}");
        }
    }

    #[test]
    fn what_ends_early_is_no_loop() {
        for end in 0..TEXT.len() {
            let _ = facts(&TEXT.as_bytes()[..end]);
        }
        // A comment is skipped only once, however many braces follow it.
        let long = format!(
            ".version 9.0\n.target sm_90\n.entry e() {{ /*{}*/ x {}",
            " ".repeat(1 << 20),
            "{".repeat(1 << 20)
        );
        assert_eq!(facts(long.as_bytes()).unwrap().kernels.len(), 1);
        let named = format!(
            ".version 9.0\n.target sm_90\n.entry e() {{ {}{}",
            "x".repeat(1 << 20),
            "{".repeat(1 << 20)
        );
        assert_eq!(facts(named.as_bytes()).unwrap().kernels.len(), 1);
    }
}
