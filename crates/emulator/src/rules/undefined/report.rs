//! Reports undefined values at the end of a launch, and violations after which the launch continued.

use std::collections::HashMap;

use super::stores::Stores;
use crate::api::observe::{Observer, Violation};
use crate::api::trap::{Cause, Fault, Place, Rule, Source, Trap};
use crate::memory::global::GlobalMemory;
use crate::run::deadlock::place;
use crate::run::machine::Tolerated;
use crate::run::stream::InStream;

/// What happened, and the origin of the undefined bits involved.
pub(crate) fn with_cause(
    launches: &[InStream<'_>],
    launch: usize,
    what: String,
    cause: Option<Cause>,
) -> String {
    let Some(Cause { pc, source }) = cause else { return what };
    let Place { line, instruction, .. } = place(launches, launch, pc, [0; 3], 0, None);
    let how = match source {
        Source::Register => "which reads a register that was not written on this path",
        Source::Memory => "which reads memory that was never written",
        Source::Quotient => "an integer division by zero",
        Source::Lane => "which reads a lane that takes no part",
    };
    format!("{what}; they come from line {line} `{instruction}`, {how}")
}

/// Records in memory what stores have left undefined there.
pub(crate) fn keep_undefined(launches: &[InStream<'_>], stores: Stores, memory: &mut GlobalMemory) {
    for ((grid, pc), stored) in stores {
        let what = format!(
            "undefined bytes are stored at global address {:#x} and remain after the launch in a buffer whose contents count",
            stored.low
        );
        let what = with_cause(launches, grid, what, Some(stored.cause));
        let lane = u32::try_from(stored.lane).ok();
        let load = place(launches, grid, stored.cause.pc, stored.cta, stored.warp, lane);
        let place = place(launches, grid, pc, stored.cta, stored.warp, lane);
        let moved = stored.cause.source == Source::Memory
            && memory.is_known_move(&place).unwrap_or_else(|| {
                moves(&writers_of(&instructions(&launches[grid])), &load.instruction, &place.instruction)
            });
        memory.keep_undefined(stored.low..stored.high, Trap::new(Rule::Uninitialised, what, place), moved);
    }
}

/// Instructions that move bits without computing with them: a struct with padding passes through them when a kernel copies it.
const MOVING: &[&str] = &["mov", "prmt", "bfi", "bfe", "shl", "shr", "shf", "and", "or", "lop3", "selp"];

/// The registers of a kernel, each with the instructions that write it.
type Writers<'a> = HashMap<&'a str, Vec<&'a str>>;

fn writers_of<'a>(instructions: &[&'a str]) -> Writers<'a> {
    let mut all = Writers::new();
    for text in instructions {
        names(destination(text)).for_each(|name| all.entry(name).or_default().push(text));
    }
    all
}

/// Whether a store writes bits as a load has read them: a register reaches the store through instructions that only move them.
fn moves(writers: &Writers<'_>, load: &str, store: &str) -> bool {
    if !load.starts_with("ld") || !store.starts_with("st") {
        return false;
    }
    let Some((_, stored)) = store.split_once(']') else { return false };
    names(stored).any(|name| is_moved(writers, load, name, &mut HashMap::new()))
}

/// Whether all instructions that write a register are the load, or move such a register. `known` has the answers so far; that of a register
/// that is moved in a circle is no.
fn is_moved<'a>(
    writers: &Writers<'a>,
    load: &str,
    name: &'a str,
    known: &mut HashMap<&'a str, bool>,
) -> bool {
    if let Some(answer) = known.get(name) {
        return *answer;
    }
    let Some(all) = writers.get(name).filter(|_| known.len() < MOST_MOVES) else { return false };
    known.insert(name, false);
    let answer = all.iter().all(|text| {
        let is_load = text.split_whitespace().eq(load.split_whitespace());
        let (word, sources) = operation(text);
        let opcode = word.split('.').next().unwrap_or_default();
        let moving = MOVING.contains(&opcode) && !(opcode == "shl" && multiplies(sources));
        is_load || moving && names(sources).any(|source| is_moved(writers, load, source, known))
    });
    known.insert(name, answer);
    answer
}

/// Whether the operands of a left shift make it the product of a number: bytes, or packed elements of four bits, move by other
/// distances, and a right shift takes a field out of a word.
fn multiplies(sources: &str) -> bool {
    let distance = sources
        .trim_end_matches([';', ' '])
        .rsplit(',')
        .next()
        .and_then(|text| text.trim().parse::<u32>().ok());
    distance.is_some_and(|bits| bits % 4 != 0)
}

/// Registers that are looked at between a load and a store.
const MOST_MOVES: usize = 100;

fn names(text: &str) -> impl Iterator<Item = &str> {
    let apart = |c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}' | ';' | '|');
    text.split(apart).filter(|name| !name.is_empty())
}

/// The first operand of an instruction, which it writes unless it is an address.
fn destination(text: &str) -> &str {
    let (_, operands) = without_guard(text).split_once(char::is_whitespace).unwrap_or_default();
    let operands = operands.trim_start();
    operands.get(..first_operand(operands)).unwrap_or_default()
}

/// The opcode of an instruction, and the operands behind the first.
fn operation(text: &str) -> (&str, &str) {
    let (word, operands) = without_guard(text).split_once(char::is_whitespace).unwrap_or_default();
    let operands = operands.trim_start();
    (word, operands.get(first_operand(operands)..).unwrap_or_default())
}

/// The length of the first operand; 0 for an address.
fn first_operand(operands: &str) -> usize {
    let end = match operands.as_bytes().first() {
        Some(b'[') => Some(0),
        Some(b'{') => operands.find('}'),
        _ => operands.find([',', ';']),
    };
    end.unwrap_or(0)
}

fn without_guard(text: &str) -> &str {
    let text = text.trim_start();
    let guarded = text.starts_with('@');
    if guarded {
        text.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start())
    } else {
        text
    }
}

/// The instructions of a kernel as written.
fn instructions<'a>(step: &InStream<'a>) -> Vec<&'a str> {
    let mut starts: Vec<(u32, u32)> = step.kernel.origins.iter().map(|o| (o.start, o.end)).collect();
    starts.sort_unstable();
    starts.dedup();
    let text = &step.program.text;
    starts.into_iter().filter_map(|(start, end)| text.get(start as usize..end as usize)).collect()
}

/// Reports the violations after which a launch continued.
pub(crate) fn report_tolerated<O: Observer>(
    launches: &[InStream<'_>],
    tolerated: Tolerated,
    observer: &mut O,
) {
    for ((grid, pc, rule), (fault, cta, warp, times)) in tolerated {
        let what = with_cause(launches, grid, fault.what.clone(), fault.cause);
        let place = place(launches, grid, pc, cta, warp, fault.lane);
        observer
            .violation(&Violation { trap: Fault { rule, ..fault }.into_trap(launches, what, place), times });
    }
}

#[cfg(test)]
mod tests {
    use super::{moves, writers_of};

    #[test]
    fn a_store_of_a_loaded_register_moves_it() {
        let load = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+16];";
        let writers = writers_of(&[
            "ld.global.v4.u32 {%r1, %r2,\n  %r3, %r4}, [%rd1+16];",
            "add.s32 %r5, %r1, %r4;",
            "@%p1 mov.b64 {%r3, %r6}, %rd2;",
            "setp.eq.u32 %p1|%r2, %r1, 0;",
            "mov.b32 %f1, %r4;",
            "bfi.b32 %r7, %r5, %r1, 0, 8;",
            "mov.u32 %r8, %r5;",
            "mov.u32 %r9, %r9;",
            "@%p1 mov.u32 %r12, %r1;",
            "@!%p1 mov.u32 %r12, %r1;",
            "st.global.u32 [%r4], %r4;",
            "shl.b32 %r13, %r1, 8;",
            "shl.b32 %r14, %r1, 4;",
            "shl.b32 %r15, %r1, 1;",
            "shr.u32 %r16, %r1, 1;",
        ]);
        for stored in ["{%r9,%r4}", "%r1", "%f1", "%r7", "%r12", "%r13", "%r14", "%r16"] {
            assert!(moves(&writers, load, &format!("st.global.u32 [%rd2+4], {stored};")), "{stored}");
        }
        // Computed, or not only loaded.
        for stored in ["%r11", "%r5", "%r8", "{%r2, %r3}", "%r9", "%r15"] {
            assert!(!moves(&writers, load, &format!("st.global.u32 [%r1], {stored};")), "{stored}");
        }
        assert!(!moves(&writers, load, "atom.global.add.u32 %r5, [%rd2], %r1;"));
        assert!(!moves(&writers, "add.s32 %r1, %r2, %r3;", "st.global.u32 [%rd1], %r1;"));
        assert!(!moves(&writers_of(&[]), "", ""));
    }
}
