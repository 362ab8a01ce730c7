//! The forms of PTX that are nearest to an instruction that it lacks: those of the snippets and of the emulator's table of forms that differ
//! in the fewest modifiers.

use rayon::prelude::*;

use crate::near::distance;

/// The most modifiers in which a form differs that is still near.
const MOST: usize = 3;
/// The most forms that ptxas is asked about.
const ASKED: usize = 64;
/// The most forms that are named.
const NAMED: usize = 3;

/// A form that is near to an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Near<'a> {
    /// The snippet variant that has the form; `None` if it is a form of the table.
    pub(super) variant: Option<&'a str>,
    /// The form, as far as its modifiers.
    pub(super) form: String,
    away: Away,
    written: Vec<String>,
    right: Vec<String>,
}

/// How far a form is from an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Away {
    /// The modifiers that ptxas asks for and the form lacks.
    unanswered: usize,
    /// The modifiers that differ.
    words: usize,
    /// Whether the modifiers that both have are in another order, where the order matters.
    moved: bool,
    /// The letters that differ.
    letters: usize,
}

/// What a modifier is; one takes the place of another of its class.
fn class(word: &str) -> &str {
    if let Some((name, _)) = word.split_once("::") {
        return if is_space(name) { "space" } else { name };
    }
    let letters = word.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let (letters, numbered) =
        (&word[..word.len() - letters.len()], letters.starts_with(|c: char| c.is_ascii_digit()));
    match letters {
        "b" | "u" | "s" | "f" | "bf" | "tf" | "e" | "ue" if numbered => "type",
        "m" if numbered => "shape",
        "x" | "v" if numbered => "count",
        "" if numbered => "dimension",
        "row" | "col" => "layout",
        "rn" | "rz" | "rm" | "rp" | "rna" | "rs" | "rni" | "rzi" | "rmi" | "rpi" => "rounding",
        name if is_space(name) => "space",
        _ => "",
    }
}

fn is_space(word: &str) -> bool {
    matches!(word, "global" | "shared" | "local" | "param" | "const")
}

/// Whether the order of the modifiers of a class among themselves matters.
fn is_ordered(class: &str) -> bool {
    matches!(class, "type" | "layout" | "space")
}

/// The modifiers that messages name and an instruction lacks: those that ptxas asks for.
fn asked_for<'a>(messages: &[&'a str], words: &[&str]) -> Vec<&'a str> {
    let named = messages.iter().flat_map(|text| text.split([' ', '\'', ',']));
    let modifiers = named.filter_map(|word| word.strip_prefix('.')).filter(|word| !word.is_empty());
    modifiers.filter(|word| !words.contains(word)).collect()
}

/// The forms that differ little from an instruction of which ptxas says this, the nearest first: those of the snippets, each of a variant,
/// and those of the table. Some may be forms that ptxas refuses.
pub(super) fn candidates<'a>(
    instruction: &str,
    messages: &[&str],
    snippets: &[(&'a str, String)],
    table: &[String],
) -> Vec<Near<'a>> {
    let words: Vec<&str> = instruction.split('.').collect();
    let asked_for = asked_for(messages, &words);
    let mut found: Vec<Near<'a>> = Vec::new();
    let snippets = snippets.iter().map(|(variant, form)| (Some(*variant), form));
    for (variant, form) in snippets.chain(table.iter().map(|form| (None, form))) {
        let other: Vec<&str> = form.split('.').collect();
        // A few variants of a form: ptxas may refuse one for its operands.
        let named = found.iter().filter(|near| near.form == *form).count();
        if other.first() != words.first() || named > 1 || (named > 0 && variant.is_none()) {
            continue;
        }
        if let Some(mut near) = near(variant, form, &words, &other) {
            near.away.unanswered = missing(&asked_for, &other).len();
            found.push(near);
        }
    }
    found.sort_by_key(|near| (near.away.words, near.away.moved, near.variant.is_none(), near.away.letters));
    found.truncate(ASKED);
    found
}

/// What came of the forms that took an instruction's place.
#[derive(Debug, Default)]
pub(super) struct Tried<'n, 'a> {
    /// The nearest that ptxas accepts; those of snippets first.
    pub(super) accepted: Vec<&'n Near<'a>>,
    /// Whether every near form was tried.
    pub(super) all: bool,
}

/// Tries forms in the place of the instruction, the nearest first, until ptxas accepts some.
pub(super) fn tried<'n, 'a>(
    candidates: &'n [Near<'a>],
    accepts: impl Fn(&str) -> bool + Sync,
) -> Tried<'n, 'a> {
    let step = |near: &Near<'_>| (near.away.words, near.away.moved);
    for level in candidates.chunk_by(|a, b| step(a) == step(b)) {
        let mut distinct: Vec<&Near<'a>> = Vec::new();
        for near in level.iter().filter(|near| !near.is_it()) {
            if !distinct.iter().any(|other| other.form == near.form) {
                distinct.push(near);
            }
        }
        let answers: Vec<bool> = distinct.par_iter().map(|near| accepts(&near.form)).collect();
        let works = distinct.into_iter().zip(answers).filter_map(|(near, works)| works.then_some(near));
        let accepted = told_apart(works);
        if !accepted.is_empty() {
            return Tried { accepted, all: false };
        }
    }
    Tried { accepted: Vec::new(), all: candidates.len() < ASKED }
}

/// A few forms, without those that differ from the instruction in the same modifiers: the order of most is free.
fn told_apart<'n, 'a: 'n>(forms: impl Iterator<Item = &'n Near<'a>>) -> Vec<&'n Near<'a>> {
    let mut out: Vec<&Near<'a>> = Vec::new();
    for near in forms {
        let told = out.iter().any(|other| other.written == near.written && other.right == near.right);
        if !told && out.len() < NAMED {
            out.push(near);
        }
    }
    out
}

impl Near<'_> {
    /// Whether it is the instruction itself.
    pub(super) fn is_it(&self) -> bool {
        self.away.words == 0 && !self.away.moved
    }
}

fn near<'a>(variant: Option<&'a str>, form: &str, words: &[&str], other: &[&str]) -> Option<Near<'a>> {
    let (mut right, mut written) = (missing(other, words), missing(words, other));
    let classes = right.iter().chain(&written).map(|word| class(word));
    let changes = |class_of: &str| {
        let count = |list: &[&str]| list.iter().filter(|word| class(word) == class_of).count();
        count(&right).max(count(&written))
    };
    let mut told: Vec<&str> = classes.collect();
    told.sort_unstable();
    told.dedup();
    let changed = told.into_iter().map(changes).sum();
    // A snippet with little in common is another instruction.
    let far = variant.is_some() && 2 * changed > words.len().max(other.len());
    if changed > MOST || far {
        return None;
    }
    let common = |list: &[&str], without: &[&str]| -> Vec<String> {
        let kept = missing(list, without);
        kept.into_iter().filter(|word| is_ordered(class(word))).map(str::to_owned).collect()
    };
    let moved = common(words, &written) != common(other, &right);
    if changed == 0 && moved {
        (written, right) = (differing(words, other), differing(other, words));
    }
    let letters = distance(&words.join("."), &other.join("."));
    let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
    Some(Near {
        variant,
        form: form.to_owned(),
        away: Away { unanswered: 0, words: changed, moved, letters },
        written: owned(written),
        right: owned(right),
    })
}

/// Returns the nearest of the forms that ptxas accepts with operands of their own; none if the instruction is among them.
pub(super) fn nearest<'a, 'n>(
    candidates: &'n [Near<'a>],
    accepted: impl Fn(&Near<'a>) -> bool,
) -> Vec<&'n Near<'a>> {
    let rank = |near: &Near<'_>| (near.away.unanswered, near.away.words, near.away.moved);
    let accepted: Vec<&Near<'a>> = candidates.iter().filter(|near| accepted(near)).collect();
    if accepted.iter().any(|near| near.is_it()) {
        return Vec::new();
    }
    let least = accepted.iter().map(|near| rank(near)).min();
    told_apart(accepted.into_iter().filter(|near| Some(rank(near)) == least))
}

/// What was written, and what PTX has: ``You wrote `.ue4m3`; PTX has `.ue8m0`.``
pub(super) fn remedy(nearest: &[&Near<'_>]) -> String {
    sentences(nearest.iter().map(|near| (list(&near.written), list(&near.right))))
}

/// What is told of an instruction if ptxas accepts no near form.
pub(super) const NONE: &str =
    "PTX has no such form, and ptxas accepts none of the near forms with these operands.";

/// The sentences of pairs of what was written and what PTX has in its place.
fn sentences(pairs: impl Iterator<Item = (String, String)>) -> String {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for (written, right) in pairs {
        match told.iter_mut().find(|(other, _)| *other == written) {
            Some((_, rights)) if rights.contains(&right) => {}
            Some((_, rights)) => rights.push(right),
            None => told.push((written, vec![right])),
        }
    }
    let sentence = |(written, rights): (String, Vec<String>)| {
        let nothing = rights.iter().any(String::is_empty);
        let mut rights: Vec<String> = rights.into_iter().filter(|right| !right.is_empty()).collect();
        if written.is_empty() {
            return format!("you wrote no {}; PTX requires it.", alternatives(rights));
        }
        if nothing {
            rights.push(if rights.is_empty() { "nothing there" } else { "nothing" }.to_owned());
        }
        format!("you wrote {written}; PTX has {}.", alternatives(rights))
    };
    let text = told.into_iter().take(NAMED).map(sentence).collect::<Vec<_>>().join(" Or ");
    text.replacen("you", "You", 1)
}

/// `a, b or c`.
fn alternatives(mut words: Vec<String>) -> String {
    match (words.pop(), words.is_empty()) {
        (Some(last), false) => format!("{} or {last}", words.join(", ")),
        (last, _) => last.unwrap_or_default(),
    }
}

/// The words of `of` that `from` lacks, each as often as it lacks it.
fn missing<'a>(of: &[&'a str], from: &[&str]) -> Vec<&'a str> {
    let mut left = from.to_vec();
    let mut out = Vec::new();
    for word in of {
        match left.iter().position(|other| other == word) {
            Some(at) => {
                left.remove(at);
            }
            None => out.push(*word),
        }
    }
    out
}

/// The ordered words of a list between the first and the last at which the ordered words of another, equally long, differ.
fn differing<'a>(list: &[&'a str], other: &[&str]) -> Vec<&'a str> {
    let ordered = |word: &&&str| is_ordered(class(word));
    let list: Vec<&'a str> = list.iter().filter(ordered).copied().collect();
    let other: Vec<&str> = other.iter().filter(ordered).copied().collect();
    let differs: Vec<usize> = (0..list.len()).filter(|n| list.get(*n) != other.get(*n)).collect();
    match (differs.first(), differs.last()) {
        (Some(first), Some(last)) => list[*first..=*last].to_vec(),
        _ => Vec::new(),
    }
}

fn list(words: &[String]) -> String {
    let mut once: Vec<String> = Vec::new();
    for word in words {
        let quoted = format!("`.{word}`");
        if !once.contains(&quoted) {
            once.push(quoted);
        }
    }
    once.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: [&str; 10] = [
        "mma.sync.m16n8k64.kind::mxf4.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
        "mma.sync.m16n8k64.kind::mxf4nvf4.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
        "mma.sync.m16n8k64.kind::mxf4nvf4.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
        "mma.sync.m16n8k32.kind::mxf8f6f4.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0",
        "cvt.rn.f16.f32",
        "cvt.rn.satfinite.e4m3x2.f16x2",
        "cvt.rn.satfinite.relu.e2m1x2.f32",
        "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        "cp.async.ca.shared.global",
    ];

    /// The remedy of an instruction if ptxas refuses the forms with this word.
    fn remedy_without(instruction: &str, refused: &str) -> String {
        remedy_after(instruction, refused, "")
    }

    fn remedy_after(instruction: &str, refused: &str, message: &str) -> String {
        let mut forms: Vec<(&str, String)> = FORMS.iter().map(|form| ("v", (*form).to_owned())).collect();
        // The snippets contain forms that ptxas refuses, this one included.
        forms.push(("refused", instruction.to_owned()));
        let candidates = candidates(instruction, &[message], &forms, &[]);
        let accepted = |near: &Near<'_>| {
            near.variant != Some("refused") && (refused.is_empty() || !near.form.contains(refused))
        };
        remedy(&nearest(&candidates, accepted))
    }

    #[test]
    fn the_accepted_form_with_the_fewest_other_words_is_named() {
        let mxf4 = "mma.sync.m16n8k64.kind::mxf4.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3";
        assert_eq!(remedy_without(mxf4, ""), "You wrote `.ue4m3`; PTX has `.ue8m0`.");
        let nvf4 = "mma.sync.m16n8k64.kind::mxf4nvf4.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3";
        let both =
            "You wrote `.scale_vec::2X`; PTX has `.scale_vec::4X`. Or you wrote `.ue4m3`; PTX has `.ue8m0`.";
        assert_eq!(remedy_without(nvf4, ""), both);
        assert_eq!(remedy_without(nvf4, "4X"), "You wrote `.ue4m3`; PTX has `.ue8m0`.");
        let kind = "mma.sync.m16n8k64.kind::mxf8.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0";
        assert_eq!(
            remedy_without(kind, ""),
            "You wrote `.kind::mxf8`; PTX has `.kind::mxf4` or `.kind::mxf4nvf4`."
        );
        let shape = "mma.sync.m16n8k64.kind::mxf8f6f4.scale_vec::1X.f32.e4m3.e2m1.f32.ue8m0";
        assert_eq!(remedy_without(shape, ""), "You wrote `.m16n8k64`; PTX has `.m16n8k32`.");
        let types = "mma.sync.m16n8k64.kind::mxf4.scale_vec::2X.f32.e4m3.e4m3.f32.ue8m0";
        assert_eq!(remedy_without(types, ""), "You wrote `.e4m3`; PTX has `.e2m1`.");
        let format = "ldmatrix.sync.aligned.m8n8.x4.shared.b8x16.b4x16_p64";
        assert_eq!(remedy_without(format, ""), "You wrote `.m8n8`; PTX has `.m8n16`.");
    }

    #[test]
    fn words_too_many_too_few_and_in_another_order_are_told() {
        assert_eq!(remedy_without("cvt.rn.f16.f32.bogus", ""), "You wrote `.bogus`; PTX has nothing there.");
        assert_eq!(remedy_without("cvt.rn.e4m3x2.f16x2", ""), "You wrote no `.satfinite`; PTX requires it.");
        let message = "'.satfinite' modifier required for instruction 'cvt' with destination type '.f16x2'";
        let asked_for = remedy_after("cvt.rn.f16x2", "", message);
        assert_eq!(asked_for, "You wrote no `.satfinite` `.e4m3x2`; PTX requires it.");
        let order = "You wrote `.f16x2` `.e4m3x2`; PTX has `.e4m3x2` `.f16x2`.";
        assert_eq!(remedy_without("cvt.rn.satfinite.f16x2.e4m3x2", ""), order);
        let spaces = "You wrote `.global` `.shared`; PTX has `.shared` `.global`.";
        assert_eq!(remedy_without("cp.async.ca.global.shared", ""), spaces);
    }

    /// What is told of an instruction if ptxas accepts these forms in its place.
    fn in_place(instruction: &str, accepted: &[&str]) -> (String, bool) {
        let snippets: Vec<(&str, String)> = FORMS.iter().map(|form| ("v", (*form).to_owned())).collect();
        let table = match emulator::modifiers(instruction) {
            Some(emulator::Modifiers::Near(forms)) => forms,
            _ => Vec::new(),
        };
        let candidates = candidates(instruction, &[], &snippets, &table);
        let tried = tried(&candidates, |form| accepted.contains(&form));
        (remedy(&tried.accepted), tried.all)
    }

    #[test]
    fn the_fewest_changes_that_ptxas_accepts_in_place_are_told() {
        let both = in_place("mul.frob.u32", &["mul.lo.u32", "mul.hi.u32", "mul.u32.wide"]);
        assert_eq!(both.0, "You wrote `.frob`; PTX has `.lo` or `.hi`.");
        assert_eq!(in_place("mul.frob.u32", &[]), (String::new(), true));
        let ex2 = in_place("ex2.f64", &["ex2.approx.f32"]);
        assert_eq!(ex2.0, "You wrote `.f64`; PTX has `.approx` `.f32`.");
        let spaces = in_place("cp.async.ca.global.shared", &["cp.async.ca.shared.global"]);
        assert_eq!(spaces.0, "You wrote `.global` `.shared`; PTX has `.shared` `.global`.");
        let fewer = in_place("cvt.rn.f16.f32.bogus", &["cvt.rn.f16.f32", "cvt.rn.bf16.f32"]);
        assert_eq!(fewer.0, "You wrote `.bogus`; PTX has nothing there.");
        let snippet =
            in_place("cvt.rn.satfinite.relu.bogus.e2m1x2.f32", &["cvt.rn.satfinite.relu.e2m1x2.f32"]);
        assert_eq!(snippet.0, "You wrote `.bogus`; PTX has nothing there.");
    }

    #[test]
    fn forms_that_are_accepted_or_far_have_no_nearest() {
        assert_eq!(
            remedy_without("cvt.rn.satfinite.e2m1x2.f32.relu", ""),
            "",
            "the order of these modifiers is free"
        );
        assert_eq!(remedy_without("cvt.rz.s32.f64", ""), "");
        assert_eq!(remedy_without("ldmatrix.sync.aligned.x4.m8n8.shared.b16", ""), "");
    }
}
