//! Readable names of kernels: the nested name of an Itanium-mangled symbol, without its template arguments.

/// Returns `cutlass::device_kernel<…>` for `_ZN7cutlass13device_kernelI…`; a name that is not mangled is returned unchanged.
#[must_use]
pub fn readable_kernel(name: &str) -> String {
    nested(name).unwrap_or_else(|| name.to_owned())
}

fn nested(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let (mut rest, many) = match rest.strip_prefix('N') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let mut parts = Vec::new();
    while let Some((part, tail)) = identifier(rest) {
        // The name of an anonymous namespace differs from build to build.
        if !part.starts_with("_GLOBAL__N_") && !part.starts_with("_INTERNAL_") {
            parts.push(part.to_owned());
        }
        rest = tail;
        if !many {
            break;
        }
    }
    let last = parts.last_mut()?;
    if rest.starts_with('I') {
        // CUTLASS uses one name for all its GEMMs; the main loop distinguishes them.
        last.push_str(&format!("<{}…>", main_loop(rest).unwrap_or_default()));
    }
    Some(parts.join("::"))
}

/// The identifier that begins with `Mainloop`.
fn main_loop(text: &str) -> Option<&str> {
    let at = text.find("Mainloop")?;
    let digits = text[..at].trim_end_matches(|c: char| c.is_ascii_digit()).len();
    identifier(&text[digits..]).map(|(name, _)| name)
}

/// Splits `3foo…` into `foo` and the rest.
fn identifier(text: &str) -> Option<(&str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).filter(|n| *n > 0)?;
    let length: usize = text[..digits].parse().ok()?;
    let end = digits.checked_add(length)?;
    Some((text.get(digits..end)?, text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_become_nested_names() {
        for (name, want) in [
            ("_ZN7cutlass13device_kernelINS_4gemm6kernelEEEvNT_6ParamsE", "cutlass::device_kernel<…>"),
            ("_ZN7cutlass13device_kernelI3Foo12MainloopSm90EEvT_", "cutlass::device_kernel<MainloopSm90…>"),
            ("_Z4axpyPfS_f", "axpy"),
            ("_ZN12_GLOBAL__N_16kernelEv", "kernel"),
            ("fmhaSm100aKernel_Qkv", "fmhaSm100aKernel_Qkv"),
            ("_Z99short", "_Z99short"),
            ("_ZN99999999999999999999999aE", "_ZN99999999999999999999999aE"),
            ("_Z", "_Z"),
        ] {
            assert_eq!(readable_kernel(name), want);
        }
    }
}
