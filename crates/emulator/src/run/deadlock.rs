//! Places of rows in the text, and reports of launches that do not end.

use crate::api::trap::{Place, Rule, Stop, Trap};
use crate::front::calls::CallSite;
use crate::front::program::Row;
use crate::run::inlined;
use crate::run::progress::Progress;
use crate::run::resident::Resident;
use crate::run::stream::{Grid, InStream, Stream};
use crate::run::warp::Wait;

/// Returns the place of a row in the text.
pub(crate) fn place(
    launches: &[InStream<'_>],
    launch: usize,
    pc: u32,
    cta: [u32; 3],
    warp: u32,
    lane: Option<u32>,
) -> Place {
    let InStream { program, kernel, .. } = launches[launch];
    let origin = kernel.origins.get(pc as usize).copied();
    let text = origin.and_then(|o| program.text.get(o.start as usize..o.end as usize)).unwrap_or_default();
    let line = origin.map_or(0, |o| program.line(o.start as usize));
    let named = |(file, line): (u32, u32)| {
        (program.files.get(&file).cloned().unwrap_or_else(|| format!("file {file}")), line)
    };
    let of_row = origin.filter(|o| o.line > 0);
    let lines: Vec<(String, u32)> = of_row.map_or_else(Vec::new, |o| {
        let mut lines = inlined::lines(&program.text, o.start as usize);
        if lines.first() != Some(&(o.file, o.line)) {
            lines = vec![(o.file, o.line)];
        }
        lines.into_iter().map(named).collect()
    });
    // The line of an intrinsic in CUDA's headers says nothing: that of its caller does.
    let own = lines.iter().position(|(file, _)| !inlined::is_cudas_header(file)).unwrap_or_default();
    let source = lines.get(own).cloned();
    let inlined_at = lines.last().filter(|_| lines.len() > own + 1).cloned();
    let text_of =
        |of: &Option<(String, u32)>| of.as_ref().and_then(|(file, line)| program.source_line(file, *line));
    let (source_text, inlined_text) = (text_of(&source), text_of(&inlined_at));
    let instruction = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let kernel = kernel.name.clone();
    Place {
        launch,
        kernel,
        line,
        instruction,
        source,
        source_text,
        inlined_at,
        inlined_text,
        cta,
        warp,
        lane,
    }
}

/// Calls that a message names, the innermost first.
const NAMED_CALLS: usize = 4;

/// Describes the calls, given by their rows, that led to a function.
pub(crate) fn called_from(launches: &[InStream<'_>], launch: usize, calls: &[u32]) -> String {
    let InStream { program, kernel, .. } = launches[launch];
    let mut text = String::new();
    // A recursion is named once.
    let mut runs = calls.chunk_by(PartialEq::eq);
    for run in runs.by_ref().take(NAMED_CALLS) {
        let pc = run[0];
        let start = kernel.origins.get(pc as usize).map_or(0, |origin| origin.start as usize);
        let site = kernel.rows.get(pc as usize).and_then(Row::extra::<CallSite>);
        let caller =
            site.and_then(|site| site.caller).and_then(|caller| kernel.functions.get(caller as usize));
        let caller = caller.map_or(&kernel.name, |caller| &caller.name);
        text += &format!(", called by `{caller}` at line {}", program.line(start));
        if run.len() > 1 {
            text += &format!(" ({} times)", run.len());
        }
    }
    let left: usize = runs.map(<[u32]>::len).sum();
    if left > 0 {
        text += &format!(", and {left} more calls");
    }
    text
}

/// Reports a deadlock: which lanes wait for what.
pub(crate) fn deadlock(launches: &[InStream<'_>], residents: &[Resident], stream: &Stream) -> Stop {
    // Those that wait may wait for those that repeat a loop.
    let (mut loops, mut waits) = (Vec::new(), Vec::new());
    for resident in residents {
        for warp in &resident.warps {
            for fragment in &warp.lanes.fragments {
                let repeats = match fragment.wait {
                    Wait::Nothing | Wait::Impatient | Wait::Released => true,
                    Wait::Barrier { id, generation } => {
                        resident.cta.barriers[id as usize & 15].generation != generation
                    }
                    _ => false,
                };
                let who = if repeats { &mut loops } else { &mut waits };
                if who.len() == NAMED_WARPS {
                    continue;
                }
                // A loop waits for what it reads.
                let pc = match fragment.wait {
                    _ if repeats => fragment.read.unwrap_or(fragment.pc),
                    // Lanes that have arrived go on behind the barrier.
                    Wait::Barrier { .. } => fragment.pc.saturating_sub(1),
                    _ => fragment.pc,
                };
                let at = place(launches, resident.cta.grid, pc, resident.cta.id, warp.index, None);
                let what = match fragment.wait {
                    _ if repeats => {
                        let why = match fragment.read {
                            Some(_) => "no warp changes what it reads",
                            None => "it reads no memory",
                        };
                        format!("line {} `{}`, and {why}", at.line, at.instruction)
                    }
                    Wait::Nothing | Wait::Impatient | Wait::Held(_) | Wait::Released => "its turn".to_owned(),
                    Wait::Barrier { id, .. } => {
                        let barrier = &resident.cta.barriers[id as usize & 15];
                        let wanted = if barrier.expected == u32::MAX {
                            resident.cta.threads
                        } else {
                            barrier.expected
                        };
                        format!("barrier {id} ({} of {wanted} threads) at line {}", barrier.arrived, at.line)
                    }
                    Wait::Event { .. } => {
                        let thread = warp.index * 32 + fragment.mask.trailing_zeros() % 32;
                        let object =
                            resident.cta.waits_for(thread).map_or_else(String::new, |o| format!("{o}, "));
                        format!("{object}line {} `{}`", at.line, at.instruction)
                    }
                    Wait::Company(_) => "the other lanes of its warp".to_owned(),
                    Wait::Converge { wanted, .. } => {
                        format!("lanes {wanted:#010x} to reach line {} `{}`", at.line, at.instruction)
                    }
                };
                let text = format!(
                    "CTA {:?} warp {} lanes {:#010x} {} {what}",
                    resident.cta.id,
                    warp.index,
                    fragment.mask,
                    if repeats { "repeat a loop for ever at" } else { "wait for" }
                );
                who.push((text, at));
            }
        }
    }
    let (who, places): (Vec<String>, Vec<Place>) = loops.into_iter().chain(waits).take(NAMED_WARPS).unzip();
    let mut what = format!("no warp can make progress: {}", who.join("; "));
    if let Some(resident) = residents.first() {
        what += &not_begun(residents, &stream.grids[resident.cta.grid], resident.cta.grid);
    }
    Stop::Trap(Box::new(Trap::new(Rule::Deadlock, what, places.into_iter().next().unwrap_or_default())))
}

/// Warps that a message names.
const NAMED_WARPS: usize = 8;

/// Describes the CTAs that have not begun, for which the resident ones may wait in vain.
fn not_begun(residents: &[Resident], grid: &Grid, number: usize) -> String {
    let left = grid.total() - grid.begun;
    if left == 0 {
        return String::new();
    }
    let count = residents.iter().filter(|r| r.cta.grid == number).count();
    format!(
        "; {count} of {} CTAs are resident at a time, and {left} have not started: they start when others end, or all together in a \
         cooperative launch",
        grid.total()
    )
}

/// Reports that a launch exceeded `fuel`, and the CTAs that have not begun, for which the resident ones may wait in vain.
pub(crate) fn out_of_fuel(
    launches: &[InStream<'_>],
    residents: &[Resident],
    stream: &Stream,
    fuel: u64,
) -> Stop {
    stopped(launches, residents, (stream, 0), format!("more than {fuel} instructions"))
}

/// Reports that a launch exceeded its time, with what it has executed.
pub(crate) fn out_of_time(
    launches: &[InStream<'_>],
    residents: &[Resident],
    stream: &Stream,
    progress: &Progress,
) -> Stop {
    let seconds = progress.limit().unwrap_or_default().as_secs_f64();
    let what = format!("more than {seconds} s; {} warp instructions so far", progress.instructions());
    stopped(launches, residents, (stream, progress.ended_apart()), what)
}

/// Reports where the first resident CTA has come to, and how many CTAs have ended, maybe apart from the others, or not begun.
fn stopped(
    launches: &[InStream<'_>],
    residents: &[Resident],
    (stream, apart): (&Stream, u64),
    mut what: String,
) -> Stop {
    let mut at = Place::default();
    if let Some(Resident { cta, warps, .. }) = residents.first() {
        let grid = &stream.grids[cta.grid];
        let running = residents.iter().flat_map(|r| &r.warps).filter(|warp| warp.live != 0).count();
        let running =
            if running == 1 { "1 warp still runs".to_owned() } else { format!("{running} warps still run") };
        what += &match (grid.ended, grid.total()) {
            (0, 1) => format!("; its only CTA has not ended, and {running}"),
            (ended, total) if apart > ended.into() => format!("; {apart} of {total} CTAs have ended"),
            (ended, total) => format!("; {ended} of {total} CTAs have ended, and {running}"),
        };
        if apart <= grid.ended.into() {
            what += &not_begun(residents, grid, cta.grid);
        }
        let warp = warps.iter().find(|w| w.live != 0).or(warps.first());
        let pc = warp.and_then(|w| w.lanes.fragments.first()).map_or(u32::MAX, |f| f.pc);
        at = place(launches, cta.grid, pc, cta.id, warp.map_or(0, |w| w.index), None);
    }
    Stop::Trap(Box::new(Trap::new(Rule::Fuel, what, at)))
}
