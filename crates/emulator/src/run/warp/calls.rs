//! Lanes that call functions and return from them: fragments in frames of their own, and groups that wait behind the call.

use super::divergence::{Divergence, Group};
use super::{Fragment, Stopped, Wait};
use crate::api::trap::Fault;
use crate::front::calls::{CallSite, Target};
use crate::front::flow::NEVER;
use crate::front::program::Row;
use crate::run::frames::{self, Level};
use crate::run::machine::Machine;

/// The masked lanes of a fragment call functions. The fragment goes on with one of them; returns its first row.
pub(super) fn call(
    lanes: &mut Divergence,
    m: &mut Machine<'_>,
    row: &Row,
    at: usize,
    pc: u32,
) -> Result<u32, Box<Stopped>> {
    let stopped = |fault| Stopped::at(fault, pc);
    let Some(site) = row.extra::<CallSite>() else { return Ok(pc + 1) };
    let mask = m.mask;
    let this = &mut lanes.fragments[at];
    let (rest, apart) = (this.mask & !mask, this.apart);
    if let Target::Function(function) = site.target
        && rest == 0
        && m.kernel.functions[function as usize].refused.is_none()
    {
        let below = this.stack.clone();
        let caller = (std::mem::take(&mut this.groups), this.stack.take());
        return match frames::enter(m, site, (function, mask), (pc, NEVER), caller) {
            Ok(stack) => {
                this.stack = stack;
                Ok(m.kernel.functions[function as usize].entry)
            }
            Err(fault) => {
                this.stack = below;
                Err(stopped(fault))
            }
        };
    }
    let targets = frames::targets(m, site).map_err(stopped)?;
    let group = Group { pc: pc + 1, expected: this.mask, arrived: rest, returns: true };
    let group = lanes.open(group);
    let this = &mut lanes.fragments[at];
    let (outer, below) = (std::mem::take(&mut this.groups), this.stack.take());
    if rest != 0 {
        let wait = Wait::Company(group);
        let (groups, stack) = (outer.clone(), below.clone());
        lanes.fragments.push(Fragment { pc: pc + 1, mask: rest, wait, groups, stack, read: None, apart });
    }
    let mut first = None;
    for (function, mask) in targets {
        let called = &m.kernel.functions[function as usize];
        if let Some(why) = called.refused.clone() {
            let fault = Fault::new(crate::api::trap::Rule::Explicit, why.why.clone());
            return Err(Box::new(Stopped { refused: Some(Box::new(why)), ..*stopped(fault) }));
        }
        let caller = (outer.clone(), below.clone());
        let entered = frames::enter(m, site, (function, mask), (pc, group), caller);
        let stack = entered.map_err(|fault| {
            lanes.fragments[at].stack.clone_from(&below);
            stopped(fault)
        })?;
        let (pc, wait) = (called.entry, Wait::Nothing);
        let inside = Fragment { pc, mask, wait, groups: Vec::new(), stack, read: None, apart };
        if first.is_none() {
            first = Some(called.entry);
            lanes.fragments[at] = inside;
        } else {
            lanes.fragments.push(inside);
        }
    }
    Ok(first.unwrap_or(pc + 1))
}

/// The outcome of a return.
pub(super) enum Returned {
    /// The other lanes of the fragment go on in the function.
    Stays,
    /// All lanes go on at a row of the caller.
    Leaves(u32),
    /// All lanes wait behind the call for others of a group.
    Waits(u32, u32),
    /// All lanes of the fragment go on at a row, and other fragments may be able to.
    Splits(u32),
}

/// The masked lanes of a fragment return from their function.
pub(super) fn returned(lanes: &mut Divergence, m: &mut Machine<'_>, at: usize, pc: u32) -> Returned {
    let mask = m.mask;
    let this = &mut lanes.fragments[at];
    let Some(level) = this.stack.clone() else { return Returned::Stays };
    let frame = match &*level {
        Level::Call(frame) => frame,
        Level::Mixed(parts) => {
            let inside = parts.iter().filter(|(part, _)| part & this.mask != 0);
            let parts: Vec<Fragment> = inside
                .map(|(part, stack)| Fragment {
                    pc,
                    mask: part & this.mask,
                    wait: Wait::Nothing,
                    groups: this.groups.clone(),
                    stack: stack.clone(),
                    read: None,
                    apart: this.apart,
                })
                .collect();
            let mut parts = parts.into_iter();
            if let Some(first) = parts.next() {
                *this = first;
            }
            lanes.fragments.extend(parts);
            return Returned::Splits(pc);
        }
    };
    let apart = this.apart;
    frames::leave(m, frame, mask);
    // Lanes that wait in the function no longer expect these.
    let waiting = std::mem::take(&mut this.groups);
    for g in &waiting {
        lanes.groups[*g as usize].expected &= !mask;
        lanes.groups[*g as usize].arrived &= !mask;
    }
    let behind = frame.site + 1;
    let all = frame.mask & m.live;
    let wait = if frame.group.get() == NEVER && mask == all {
        Wait::Nothing
    } else {
        if frame.group.get() == NEVER {
            let group = Group { pc: behind, expected: all, arrived: 0, returns: true };
            frame.group.set(lanes.open(group));
        }
        let g = frame.group.get();
        let group = &mut lanes.groups[g as usize];
        if apart {
            group.expected &= !mask;
        } else {
            group.arrived |= mask;
        }
        if group.arrived == group.expected && group.expected & !mask == 0 {
            group.expected = 0;
            lanes.free.push(g);
            Wait::Nothing
        } else if apart {
            Wait::Nothing
        } else {
            Wait::Company(g)
        }
    };
    let (below, outer) = (frame.below.clone(), frame.groups.clone());
    let this = &mut lanes.fragments[at];
    let rest = this.mask & !mask;
    if rest != 0 {
        (this.mask, this.groups) = (rest, waiting);
        lanes.fragments.push(Fragment {
            pc: behind,
            mask,
            wait,
            groups: outer,
            stack: below,
            read: None,
            apart,
        });
        return Returned::Stays;
    }
    let regroups = apart || !waiting.is_empty();
    (this.groups, this.stack) = (outer, below);
    match wait {
        Wait::Company(group) => Returned::Waits(behind, group),
        _ if regroups => Returned::Splits(behind),
        _ => Returned::Leaves(behind),
    }
}
