//! Readable names of kernels.

use std::borrow::Cow;

use cpp_demangle::{DemangleOptions, Symbol};

/// Maximum characters of a name in messages.
const SHOWN: usize = 96;

/// A name demangled without its parameter types, truncated if it is long.
pub(crate) fn readable(name: &str) -> Cow<'_, str> {
    let options = DemangleOptions::new().no_params().no_return_type();
    let plain = name.starts_with("_Z").then(|| Symbol::new(name).ok()?.demangle_with_options(&options).ok());
    let Some(plain) = plain.flatten() else { return cut(name.into()) };
    cut(plain.into())
}

fn cut(name: Cow<'_, str>) -> Cow<'_, str> {
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_are_read_and_long_ones_cut() {
        assert_eq!(readable("softmax"), "softmax");
        assert_eq!(readable("_Z7softmaxPKfPfi"), "softmax");
        assert_eq!(readable("_Z6kernelIfLi4EEvPT_"), "kernel<float, 4>");
        assert_eq!(readable("_Znonsense"), "_Znonsense");
        assert_eq!(readable(&"x".repeat(200)), format!("{}…", "x".repeat(96)));
    }
}
