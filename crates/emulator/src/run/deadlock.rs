//! Places of rows in the text, and reports of launches that do not end.

use crate::api::trap::{Place, Rule, Stop, Trap};
use crate::run::progress::Progress;
use crate::run::resident::Resident;
use crate::run::stream::{InStream, Stream};
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
    let line = origin.map_or(0, |o| ptx::line_column(&program.text, o.start as usize).line);
    let source = origin
        .filter(|o| o.line > 0)
        .map(|o| (program.files.get(&o.file).cloned().unwrap_or_else(|| format!("file {}", o.file)), o.line));
    let instruction = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Place { launch, kernel: kernel.name.clone(), line, instruction, source, cta, warp, lane }
}

/// Reports a deadlock: which lanes wait for what.
pub(crate) fn deadlock(launches: &[InStream<'_>], residents: &[Resident]) -> Stop {
    let mut who = Vec::new();
    let mut first = None;
    for resident in residents {
        for warp in &resident.warps {
            for fragment in &warp.fragments {
                let at = place(launches, resident.cta.grid, fragment.pc, resident.cta.id, warp.index, None);
                let what = match fragment.wait {
                    Wait::Barrier { id, .. } => {
                        let barrier = &resident.cta.barriers[id as usize & 15];
                        let wanted = if barrier.expected == u32::MAX {
                            resident.cta.threads
                        } else {
                            barrier.expected
                        };
                        format!("barrier {id} ({} of {wanted} threads)", barrier.arrived)
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
                    Wait::Nothing | Wait::Impatient | Wait::Held(_) | Wait::Released => "its turn".to_owned(),
                };
                if who.len() < 8 {
                    who.push(format!(
                        "CTA {:?} warp {} lanes {:#010x} wait for {what}",
                        resident.cta.id, warp.index, fragment.mask
                    ));
                }
                first.get_or_insert(at);
            }
        }
    }
    let what = format!("no warp can make progress: {}", who.join("; "));
    Stop::Trap(Box::new(Trap { rule: Rule::Deadlock, what, place: first.unwrap_or_default() }))
}

/// Reports that a launch exceeded `fuel`, and the CTAs that have not begun, for which the resident ones may wait in vain.
pub(crate) fn out_of_fuel(
    launches: &[InStream<'_>],
    residents: &[Resident],
    stream: &Stream,
    fuel: u64,
) -> Stop {
    stopped(launches, residents, stream, format!("more than {fuel} instructions"))
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
    stopped(launches, residents, stream, what)
}

/// Reports where the first resident CTA has come to, and how many CTAs have ended or not begun.
fn stopped(launches: &[InStream<'_>], residents: &[Resident], stream: &Stream, mut what: String) -> Stop {
    let mut at = Place::default();
    if let Some(Resident { cta, warps, .. }) = residents.first() {
        let grid = &stream.grids[cta.grid];
        let left = grid.total() - grid.begun;
        what += &format!("; {} of {} CTAs have ended", grid.ended, grid.total());
        if left > 0 {
            let count = residents.iter().filter(|r| r.cta.grid == cta.grid).count();
            what += &format!(
                "; {count} of {} CTAs are resident at a time, and {left} have not started: they start when others end, or all together in a \
                 cooperative launch",
                grid.total()
            );
        }
        let warp = warps.iter().find(|w| w.live != 0).or(warps.first());
        let pc = warp.and_then(|w| w.fragments.first()).map_or(u32::MAX, |f| f.pc);
        at = place(launches, cta.grid, pc, cta.id, warp.map_or(0, |w| w.index), None);
    }
    Stop::Trap(Box::new(Trap { rule: Rule::Fuel, what, place: at }))
}
