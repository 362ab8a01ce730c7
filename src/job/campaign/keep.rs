//! Writes a finding as a folder that `emulate` and `bisect` take: the kernel, a launch file with inputs and expected results, and what a
//! compiler's machine code gave instead.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use compiler::fuzz::{CTAS, ENTRY, THREADS, before};
use serde_json::json;

use super::Finding;
use crate::job::build::{Build, in_words};

/// The names of a kernel's buffers, by parameter.
const BUFFERS: [&str; 4] = ["input", "results", "own", "bulk"];

/// Writes a finding to a new folder `seed-N` of `folder` and returns its launch file.
///
/// # Errors
/// If files cannot be written.
pub fn keep(folder: &Path, finding: &Finding, builds: &[Build]) -> io::Result<PathBuf> {
    let mut name = format!("seed-{}", finding.seed);
    // One kernel may have several findings.
    let mut n = 2;
    while folder.join(&name).exists() {
        name = format!("seed-{}-{n}", finding.seed);
        n += 1;
    }
    let folder = folder.join(name);
    fs::create_dir_all(&folder)?;
    let wrong = in_words(finding.builds.iter().map(|n| &builds[*n]));
    let head = format!("// {wrong}: {}\n", finding.what.replace('\n', " "));
    fs::write(folder.join("kernel.ptx"), head + &finding.kernel)?;
    let memory = before(finding.seed);
    let mut text = format!("modules:\n  m: {}\nbuffers:\n", json!({"file": "kernel.ptx"}));
    let mut at = 0;
    for (n, (name, bytes)) in BUFFERS.iter().zip(&memory).enumerate() {
        let file = format!("{name}.bin");
        fs::write(folder.join(&file), bytes)?;
        let mut entry = json!({"type": "u32", "shape": bytes.len() / 4, "raw": file});
        if n > 0 && !finding.expected.is_empty() {
            let part = at..at + bytes.len();
            at = part.end;
            let wanted = format!("{name}.expected.bin");
            fs::write(folder.join(&wanted), &finding.expected[part.clone()])?;
            entry["expect"] = json!({"raw": wanted});
            if let Some(got) = &finding.got {
                fs::write(folder.join(format!("{name}.got.bin")), &got[part])?;
            }
        }
        _ = writeln!(text, "  {name}: {entry}");
    }
    let launch = json!({
        "entry": ENTRY, "grid": [CTAS, 1, 1], "block": [THREADS, 1, 1], "args": BUFFERS.map(|name| json!({"buffer": name})),
    });
    _ = writeln!(text, "launches:\n  - {launch}");
    let path = folder.join("launch.yaml");
    fs::write(&path, text)?;
    Ok(path)
}
