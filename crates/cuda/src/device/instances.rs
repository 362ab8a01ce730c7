//! Launches of an instance of a graph: its work in order, and the bodies of its conditional nodes as their values choose them.
//!
//! A value is a word of device memory that kernels write, so that the trials of a launch compare it, and the next node reads it. The
//! graphs of a process share the words: the first handle of each graph is the same, as on a GPU, and no two launches overlap.
#![expect(unsafe_code, reason = "memory of the program")]

use std::time::Instant;

use emulator::Rule;
use emulator::events::ViolationRecord;

use crate::device::allocations::Kind;
use crate::device::conditionals::{Choice, Condition, Conditional};
use crate::device::contexts;
use crate::device::graphs::Step;
use crate::device::state::{Device, device};
use crate::device::submit::perform;
use crate::device::work::Work;
use crate::program::caller::called_function;
use crate::status::{Answer, Status};

/// The number of values in one allocation.
const BLOCK: usize = 256;

/// Turns of a loop after which it is taken to have no end.
const MOST_TURNS: u64 = 1_000_000;

/// How a loop began.
struct Loop {
    began: Instant,
    /// Warp instructions executed before it.
    executed: u64,
    turns: u64,
}

/// Runs the work of an instance, from the values with which its conditions begin.
///
/// # Safety
/// As [`perform`].
pub(crate) unsafe fn perform_instance(steps: &[Step], conditions: &[Condition]) -> Answer {
    device()?.begin_conditions(conditions);
    // SAFETY: as promised by the caller.
    unsafe { perform_steps(steps) }
}

/// Runs steps in order. Behind that of a conditional node are those of its bodies.
///
/// # Safety
/// As [`perform`].
unsafe fn perform_steps(mut steps: &[Step]) -> Answer {
    while let [step, rest @ ..] = steps {
        steps = rest;
        if let Work::Conditional(node) = &step.work {
            let mut bodies = Vec::with_capacity(step.bodies.len());
            for len in &step.bodies {
                let (body, rest) = steps.split_at_checked(*len).ok_or(Status::UNKNOWN)?;
                bodies.push(body);
                steps = rest;
            }
            // SAFETY: as promised by the caller.
            unsafe { perform_bodies(node, &bodies) }?;
        } else if step.enabled {
            // SAFETY: as above.
            unsafe { perform(&step.work) }?;
        }
    }
    Ok(())
}

/// Runs the bodies of a conditional node that its value chooses.
///
/// # Safety
/// As [`perform`].
unsafe fn perform_bodies(node: &Conditional, bodies: &[&[Step]]) -> Answer {
    let chosen = || -> Result<Option<&[Step]>, Status> {
        let value = device()?.condition(node.handle);
        Ok(node.choice.body(value).and_then(|n| bodies.get(n).copied()))
    };
    if node.choice != Choice::While {
        // SAFETY: as promised by the caller.
        return chosen()?.map_or(Ok(()), |body| unsafe { perform_steps(body) });
    }
    let mut turning = Loop { began: Instant::now(), executed: device()?.executed, turns: 0 };
    while let Some(body) = chosen()? {
        if !device()?.may_turn(&turning, body)? {
            break;
        }
        // SAFETY: as above.
        unsafe { perform_steps(body) }?;
        turning.turns += 1;
    }
    Ok(())
}

impl Device {
    /// Makes a handle for the value of a conditional node in a graph.
    pub(crate) fn condition_handle(
        &mut self,
        graph: u64,
        context: u64,
        default: Option<u32>,
    ) -> Result<u64, Status> {
        let gpu = contexts::gpu_of(context)?;
        let number = self.graphs.conditions.of_graph(graph).len();
        let block = match self.condition_blocks.get(&(gpu, number / BLOCK)) {
            Some(block) => *block,
            None => {
                let block = self.allocate_from(0, gpu, 4 * BLOCK, Kind::Conditions)?;
                self.condition_blocks.insert((gpu, number / BLOCK), block);
                block
            }
        };
        let handle = block + 4 * (number % BLOCK) as u64;
        self.graphs.conditions.add(graph, Condition { handle, context, default, used: false });
        Ok(handle)
    }

    /// Sets the values with which a launch begins.
    fn begin_conditions(&mut self, conditions: &[Condition]) {
        for condition in conditions {
            match condition.default {
                Some(value) => _ = self.memory.write_at(condition.handle, &value.to_le_bytes()),
                None => self.memory.unwrite(condition.handle, 4),
            }
        }
    }

    /// The value of a condition. One that nothing has set in this launch is a violation, and 0, as it was on an H200.
    fn condition(&mut self, handle: u64) -> u32 {
        let held = self.memory.buffer_around(handle);
        let is_set = held.is_some_and(|(base, _)| self.memory.is_written(base, (handle - base) as usize, 4));
        if is_set {
            let word = self.memory.range(handle, 4).and_then(|bytes| bytes.first_chunk());
            return word.map_or(0, |bytes| u32::from_le_bytes(*bytes));
        }
        let what = "a conditional node needs the value of its handle, to which no kernel of this launch has assigned a defined one \
                    (cudaGraphSetConditional), and which has no default (cudaGraphCondAssignDefault)";
        self.violated_in_graph(Rule::Uninitialised, what.to_owned());
        0
    }

    fn violated_in_graph(&mut self, rule: Rule, what: String) {
        self.results.violated(vec![ViolationRecord::of_call(called_function(), rule, what)]);
    }

    /// Whether a loop may have one more turn. One that has no end is a violation, or over the limit on time.
    fn may_turn(&mut self, turning: &Loop, body: &[Step]) -> Result<bool, Status> {
        let Loop { began, executed, turns } = *turning;
        if self.limits.time.is_some_and(|most| turns > 0 && began.elapsed() > most) {
            let what = format!("a loop of a graph was ended by --time-limit after {turns} turns");
            self.results.unchecked(what);
            return if self.keep_going { Ok(false) } else { Err(self.end_launches()) };
        }
        let sets = |step: &Step| step.enabled && matches!(step.work, Work::Launch(_));
        let what = if turns > 0 && !body.iter().any(sets) {
            "a loop of a graph has no end: its body has no kernel that could set its condition to 0"
                .to_owned()
        } else if self.limits.fuel.is_some_and(|fuel| self.executed - executed > fuel) {
            format!("a loop of a graph executed more warp instructions than --fuel allows, in {turns} turns")
        } else if turns >= MOST_TURNS {
            format!("a loop of a graph has no end: in {turns} turns its condition was never 0")
        } else {
            return Ok(true);
        };
        self.violated_in_graph(Rule::Fuel, what);
        if self.keep_going { Ok(false) } else { Err(self.end_launches()) }
    }

    /// Nothing is launched any more, as after a launch that the driver has ended.
    fn end_launches(&mut self) -> Status {
        self.sticky = Some(Status::TIMEOUT);
        Status::TIMEOUT
    }
}
