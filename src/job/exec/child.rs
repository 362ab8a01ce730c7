//! Runs the program as a child process: signals that `exec` gets reach it, and no process of it is left when `exec` ends by one.
//!
//! `exec` itself does not end by SIGINT, SIGTERM, SIGHUP or SIGQUIT: it passes them on, waits for the program, and then writes the
//! report. The program decides what a signal does, as it would without `exec`; the third one kills it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use emulator::events::{self, Event};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

/// Signals after which the program is killed.
const PATIENCE: usize = 3;

/// How long processes that the program started may take to end by a signal.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Runs a command to its end. `results` is the file to which its processes write.
pub(super) fn run(command: &mut Command, results: &Path) -> io::Result<ExitStatus> {
    let ignored = ignored_signals();
    // What the caller of `exec` ignores, as `nohup` does, the program ignores too.
    let passed =
        [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    // Before the program starts, so that no signal ends `exec` alone.
    let mut signals = SignalsInfo::<WithOrigin>::new(passed.chain([SIGCHLD]))?;
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let mut received = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        for origin in signals.wait().filter(|origin| origin.signal != SIGCHLD) {
            received.push(origin.signal);
            // A terminal sends its signals to the program by itself.
            if received.len() >= PATIENCE {
                send(pid, Signal::KILL);
            } else if !matches!(origin.cause, Cause::Kernel) {
                pass(pid, origin.signal);
            }
        }
    };
    if let Some(signal) = received.last() {
        end_rest(results, *signal);
    }
    Ok(status)
}

fn send(pid: Pid, signal: Signal) {
    // The process may have ended meanwhile.
    let _ = kill_process(pid, signal);
}

fn pass(pid: Pid, signal: i32) {
    if let Some(signal) = Signal::from_named_raw(signal) {
        send(pid, signal);
    }
}

/// The signals that this process ignores, one bit each from signal 1.
fn ignored_signals() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Ends the processes that still use the simulated GPU after the program has ended by a signal: its children, to which nobody has passed
/// it.
fn end_rest(results: &Path, signal: i32) {
    let rest = running(results);
    rest.iter().for_each(|pid| pass(*pid, signal));
    let begun = Instant::now();
    while !running(results).is_empty() && begun.elapsed() < LAST_WORDS {
        sleep(Duration::from_millis(20));
    }
    running(results).iter().for_each(|pid| send(*pid, Signal::KILL));
}

/// The processes that have begun to use the simulated GPU of this run and have not ended.
fn running(results: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(results).unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for event in super::read(&text) {
        match event {
            Event::Start { process, .. } => names.push(process),
            Event::End { process, .. } => names.retain(|name| *name != process),
            _ => {}
        }
    }
    let pid = |name: &String| name.split('.').next()?.parse().ok().and_then(Pid::from_raw);
    names.iter().filter_map(pid).filter(|pid| is_of_run(*pid, results)).collect()
}

/// Whether a process belongs to the run: another one may have got the number of one that has ended.
fn is_of_run(pid: Pid, results: &Path) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    let wanted = [events::RESULTS.as_bytes(), b"=", results.as_os_str().as_encoded_bytes()].concat();
    environment.split(|byte| *byte == 0).any(|entry| entry == wanted)
}
