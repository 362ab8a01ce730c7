//! What the library does in the process of a ptxas that the program runs by its path, as nvcc runs its own: it keeps the PTX beside the
//! machine code that ptxas writes, so that a module loaded later is known by the bytes of its machine code.
#![expect(unsafe_code, reason = "what runs when a process ends")]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use super::objects::PROGRAM;
use crate::device::kept_ptx::keep;
use crate::device::results::say;

/// The file that ptxas writes if it is not told another.
const DEFAULT_OUTPUT: &str = "elf.o";

/// The file to assemble, and the file to write.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    input: PathBuf,
    output: PathBuf,
}

impl Call {
    /// Reads a command line; `None` if it assembles nothing.
    fn from_arguments(arguments: &[OsString]) -> Option<Self> {
        let (mut input, mut output) = (None, None);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            match text.split_once('=').map_or((&*text, None), |(name, value)| (name, Some(value))) {
                ("-o" | "--output-file", Some(value)) => output = Some(PathBuf::from(value)),
                ("-o" | "--output-file", None) => output = words.next().map(PathBuf::from),
                _ if !text.starts_with('-') && Path::new(word).is_file() => input = Some(PathBuf::from(word)),
                _ => {}
            }
        }
        Some(Self { input: input?, output: output.unwrap_or_else(|| PathBuf::from(DEFAULT_OUTPUT)) })
    }
}

/// The call of this process, and when its output was last written before.
static CALL: OnceLock<(Call, Option<SystemTime>)> = OnceLock::new();

fn written(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|data| data.modified()).ok()
}

/// Notes the call if this process is a ptxas.
pub(super) fn begin() {
    let is_ptxas = fs::read_link(PROGRAM).is_ok_and(|path| path.file_name() == Some(OsStr::new("ptxas")));
    let arguments: Vec<OsString> = if is_ptxas { std::env::args_os().skip(1).collect() } else { Vec::new() };
    if let Some(call) = Call::from_arguments(&arguments) {
        let before = written(&call.output);
        let _ = CALL.set((call, before));
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    let Some((Call { input, output }, before)) = CALL.get() else { return };
    let after = written(output);
    // What ptxas refuses, it does not write.
    if after.is_none() || after == *before {
        return;
    }
    let kept = fs::read(input).and_then(|text| keep(&text, &fs::read(output)?));
    if let Err(error) = kept {
        say(&format!(
            "the PTX of {} cannot be kept, so that its machine code cannot run: {error}",
            output.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_call_are_found_in_every_form() {
        let folder = std::env::temp_dir().join(format!("sm121probe-ptxas-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let input = folder.join("k.ptx");
        fs::write(&input, "").unwrap();
        let text = input.display().to_string();
        for (line, output) in [
            (format!("-arch=sm_121a -m64 {text} -o out.cubin"), "out.cubin"),
            (format!("{text} --output-file=out.cubin -arch sm_121a"), "out.cubin"),
            (format!("--gpu-name=sm_121a -O3 {text}"), "elf.o"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let wanted = Call { input: input.clone(), output: output.into() };
            assert_eq!(Call::from_arguments(&words), Some(wanted), "{line}");
        }
        assert_eq!(Call::from_arguments(&["--version".into()]), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
