//! The lines of the source that an instruction comes from: its own, and those of the calls into which it was inlined.

/// The calls that one instruction can be inlined through; a text that has more is not a compiler's.
const DEEPEST: usize = 64;

/// The number of a `.file`, a line and a column.
type At = (u32, u32, u32);

/// A `.loc`: where it is, and the call into which the code there was inlined.
struct Loc {
    at: At,
    call: Option<At>,
}

/// Returns file and line of the instruction that begins at byte `start` of the text, then those of the calls into which it was
/// inlined, the outermost last. Empty without a `.loc`.
pub(crate) fn lines(text: &str, start: usize) -> Vec<(u32, u32)> {
    let mut rest = text.get(..start).unwrap_or_default().lines().rev().map(str::trim_start);
    let mut out = Vec::new();
    // The `.loc` of a call stands before that of what is inlined there.
    let mut wanted: Option<At> = None;
    for line in rest.by_ref().take_while(|line| !opens_function(line)) {
        let Some(loc) = loc(line) else { continue };
        if wanted.is_some_and(|at| at != loc.at) {
            continue;
        }
        out.push((loc.at.0, loc.at.1));
        wanted = loc.call;
        if wanted.is_none() || out.len() == DEEPEST {
            break;
        }
    }
    // A call whose own `.loc` is not there is known by its place.
    out.extend(wanted.map(|at| (at.0, at.1)).filter(|_| !out.is_empty() && out.len() < DEEPEST));
    out
}

fn opens_function(line: &str) -> bool {
    line.starts_with('.') && line.split_whitespace().any(|word| word == ".entry" || word == ".func")
}

/// Reads `.loc 1 2 3, function_name $name, inlined_at 1 2 3`.
fn loc(line: &str) -> Option<Loc> {
    let mut parts = line.strip_prefix(".loc")?.split(',').map(str::trim);
    let at = numbers(parts.next()?)?;
    let call = parts.find_map(|part| part.strip_prefix("inlined_at"));
    Some(Loc { at, call: call.and_then(numbers) })
}

fn numbers(words: &str) -> Option<At> {
    let mut numbers = words.split_whitespace().map_while(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?, numbers.next()?))
}

/// Whether a file is a header of CUDA's own, such as the one with `__ldg`: its lines say nothing about a program.
pub(crate) fn is_cudas_header(file: &str) -> bool {
    let mut folders = file.split('/');
    let in_toolkit = folders.by_ref().any(|folder| {
        folder.starts_with("cuda-") || ["cuda", "cu12", "cu13", "cuda_runtime", "cuda_cccl"].contains(&folder)
    });
    in_toolkit && folders.any(|folder| folder == "include")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".visible .entry k() {\n.loc 1 6 3\n.loc\t2 9 3, function_name $L__info_string0, inlined_at 1 6 3\n\
        .loc 3 1 34, function_name $L__info_string1+7, inlined_at 2 9 3\nld.global.b32 %r1, [%rd1];\n.loc 1 7 1\nret;\n}\n";

    #[test]
    fn calls_are_followed_outwards() {
        let at = |word: &str| lines(TEXT, TEXT.find(word).unwrap_or_default());
        assert_eq!(at("ld.global"), [(3, 1), (2, 9), (1, 6)]);
        assert_eq!(at("ret"), [(1, 7)]);
        assert_eq!(lines("ret;", 0), []);
        assert_eq!(lines(".loc 1 2 3, function_name $a, inlined_at 4 5 6\nret;", 47), [(1, 2), (4, 5)]);
    }

    #[test]
    fn headers_of_a_toolkit_are_known_by_their_folder() {
        for of_cuda in [
            "/usr/local/cuda-13.0/targets/x86_64-linux/include/sm_32_intrinsics.hpp",
            "/venv/lib/python3/site-packages/nvidia/cu13/include/cuda_fp16.hpp",
            "/cache/toolkits/headers/cuda/include/cuda_fp16.hpp",
        ] {
            assert!(is_cudas_header(of_cuda), "{of_cuda}");
        }
        for other in ["k.cu", "/home/me/cuda/kernel.cuh", "/home/me/include/tile.cuh"] {
            assert!(!is_cudas_header(other), "{other}");
        }
    }
}
