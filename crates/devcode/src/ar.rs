//! `ar` archives: static libraries.

use super::entry::Trouble;
use super::source::Source;

pub(super) const MAGIC: &[u8] = b"!<arch>\n";
pub(super) const THIN: &[u8] = b"!<thin>\n";

const HEADER: u64 = 60;
const NAMES_LIMIT: u64 = 64 << 20;

/// Passes each member's name and bytes to `each`.
///
/// # Errors
/// If the archive cannot be parsed further; earlier members have been passed on.
pub(super) fn members(source: &Source, each: &mut dyn FnMut(String, Source)) -> Result<(), Trouble> {
    let mut at = MAGIC.len() as u64;
    let mut long_names = Vec::new();
    while at + HEADER <= source.len() {
        let header: [u8; HEADER as usize] = source.array(at)?;
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok()?.trim().parse::<u64>().ok();
        if header[58..] != *b"`\n" {
            return Err(Trouble::Damaged(format!("no member of the archive starts at {at:#x}")));
        }
        let size = number(&header[48..58]).ok_or_else(|| {
            Trouble::Damaged(format!("the member at {at:#x} has a size that is not a number"))
        })?;
        let start = at + HEADER;
        if start.checked_add(size).is_none_or(|end| end > source.len()) {
            let have = source.len() - start;
            return Err(Trouble::Truncated(format!(
                "a member declares {size} bytes, but only {have} are present"
            )));
        }
        let raw = String::from_utf8_lossy(&header[..16]).trim_end().to_owned();
        match raw.as_str() {
            // Symbol tables.
            "/" | "/SYM64/" | "__.SYMDEF" => {}
            "//" => {
                if size > NAMES_LIMIT {
                    return Err(Trouble::TooLarge(format!("{size} bytes of member names")));
                }
                long_names = source.read(start, size)?;
            }
            name => {
                let (name, skip) = full_name(name, &long_names, source, start, size)?;
                each(name, source.part(start + skip, size - skip));
            }
        }
        at = (start + size).next_multiple_of(2);
    }
    Ok(())
}

/// Returns the name of a member, and how many bytes of its contents the name occupies (in the BSD format).
fn full_name(
    raw: &str,
    long: &[u8],
    source: &Source,
    start: u64,
    size: u64,
) -> Result<(String, u64), Trouble> {
    if let Some(len) = raw.strip_prefix("#1/").and_then(|len| len.parse::<u64>().ok()) {
        let len = len.min(size).min(4096);
        let name = source.read(start, len)?;
        return Ok((String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned(), len));
    }
    if let Some(at) = raw.strip_prefix('/').and_then(|at| at.parse::<usize>().ok()) {
        let rest = long.get(at..).unwrap_or_default();
        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()).min(4096);
        return Ok((String::from_utf8_lossy(&rest[..end]).trim_end_matches('/').to_owned(), 0));
    }
    Ok((raw.trim_end_matches('/').to_owned(), 0))
}
