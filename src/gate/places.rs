//! Locates findings in kernel sources: the line named by the compiler or the emulator, or else the kernel's entry.

use std::path::Path;

use emulator::OTHER_ACCESS;

use crate::families;
use crate::kernel::{Kernel, Library};
use crate::record::{Finding, Matrix, MessageRow, Pair, VariantRow};

/// Adds to findings about trials their location in the folder's kernels: the line named in the message, or else the entry of the
/// kernel whose stage is wrong. Built-in kernels have no location, since they are not in the caller's repository.
pub fn locate(findings: &mut [Finding], library: &Library, folder: &Path) {
    for finding in findings.iter_mut().filter(|f| f.place.is_none()) {
        let place = named(&finding.message, folder).or_else(|| {
            let (name, configuration, stage) = finding.trial.as_ref()?;
            let kernel = families::find(name)?.kernel_of(library, configuration, stage).filter(|k| k.own)?;
            Some((folder.join(&kernel.file).display().to_string(), entry_line(kernel)))
        });
        finding.place = place;
        let other = finding.message.split_once(OTHER_ACCESS);
        finding.other_place = other.and_then(|(_, other)| named(other, folder));
    }
}

/// Returns the line, from 1, that declares the kernel's entry.
fn entry_line(kernel: &Kernel) -> usize {
    let declares = |line: &str| {
        let at = line.find(&kernel.entry);
        !line.starts_with("//")
            && at.is_some_and(|at| line[at + kernel.entry.len()..].trim_start().starts_with('('))
    };
    kernel.text.lines().position(declares).map_or(1, |n| n + 1)
}

/// Returns the line of a variant's file that ptxas rejects, from a message like `line 12: words`. Of the pairs that `speaks`
/// selects, the newest toolkit with such a message counts.
pub(super) fn refused_line(
    matrix: &Matrix,
    variant: &VariantRow,
    speaks: impl Fn(&Pair) -> bool,
) -> Option<usize> {
    let of = |n: usize| MessageRow::split(&matrix.cell(variant, n)?.message?.text).0;
    let mut pairs: Vec<usize> = (0..matrix.pairs.len()).filter(|n| speaks(&matrix.pairs[*n])).collect();
    pairs.sort_by_key(|n| matrix.pairs[*n].toolkit);
    pairs.into_iter().rev().find_map(of)
}

/// Finds the first `NAME.cu(LINE)` or `NAME.cu:LINE` in a text that names a file of the folder.
pub fn named(text: &str, folder: &Path) -> Option<(String, usize)> {
    text.split([' ', ',', ';', '\n']).find_map(|word| {
        let end = word.find(".cuh").map(|n| n + 4).or_else(|| word.find(".cu").map(|n| n + 3))?;
        let (file, rest) = word.split_at(end);
        let digits = rest.strip_prefix(['(', ':'])?;
        let line: usize = digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let path = folder.join(Path::new(file).file_name()?);
        path.is_file().then(|| (path.display().to_string(), line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Ground;

    #[test]
    fn both_sides_of_a_race_are_found_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("own.cu"), "").unwrap();
        let race = "race: a read; kernel k, PTX line 9 `ld`, /elsewhere/own.cu:7, CTA (0,0,0), warp 1";
        let message = |other: &str| format!("{race}{OTHER_ACCESS}kernel k, PTX line 3 `st`, {other}, warp 0");
        for (other, line) in [("own.cu:5", Some(5)), ("built_in.cuh:5", None)] {
            let mut findings = [Finding::new(Ground::Wrong, String::new(), message(other))];
            locate(&mut findings, &Library::embedded().unwrap(), folder.path());
            let [found] = &findings;
            assert_eq!(found.place.as_ref().map(|(_, line)| *line), Some(7));
            assert_eq!(found.other_place.as_ref().map(|(_, line)| *line), line);
        }
    }
}
