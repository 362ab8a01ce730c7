//! Finds a kernel by the name that people write: the linker's, the demangled one, the end of that, or a pattern.

use cpp_demangle::{DemangleOptions, Symbol};

use crate::snippet::Filter;

/// Returns a kernel's name as in the source, without the types of its parameters: `a::t<3>` for `_ZN1a1tILi3EEEvPf`.
pub(super) fn demangled(name: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let plain = name.starts_with("_Z").then(|| Symbol::new(name).ok()?.demangle_with_options(&options).ok());
    plain.flatten().unwrap_or_else(|| name.to_owned())
}

/// Returns the names among `there` that `wanted` denotes: those that agree best, so one name unless several agree equally.
pub(super) fn named<'a>(wanted: &str, there: &'a [String]) -> Vec<&'a str> {
    if let Some(exact) = there.iter().find(|name| *name == wanted) {
        return vec![exact];
    }
    let wanted = without_spaces(wanted);
    let plain: Vec<(String, &str)> =
        there.iter().map(|name| (without_spaces(&demangled(name)), name.as_str())).collect();
    let of = |fits: &dyn Fn(&str) -> bool| -> Vec<&'a str> {
        plain.iter().filter(|(name, _)| fits(name)).map(|(_, name)| *name).collect()
    };
    let ends_in = |name: &str| name.strip_suffix(wanted.as_str()).is_some_and(|front| front.ends_with("::"));
    let template = |name: &str| {
        let bare = name.split('<').next().unwrap_or(name);
        bare == wanted || bare.strip_suffix(wanted.as_str()).is_some_and(|front| front.ends_with("::"))
    };
    let tries: [&dyn Fn(&str) -> bool; 3] = [&|name| name == wanted, &ends_in, &template];
    if let Some(found) = tries.iter().map(|fits| of(*fits)).find(|found| !found.is_empty()) {
        return found;
    }
    if !wanted.contains(['*', '?']) {
        return Vec::new();
    }
    let Ok(pattern) = Filter::new(&wanted) else { return Vec::new() };
    plain
        .iter()
        .filter(|(name, linker)| pattern.matches(linker, name) || pattern.matches(name, linker))
        .map(|(_, name)| *name)
        .collect()
}

fn without_spaces(name: &str) -> String {
    name.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_named_as_people_write_them() {
        let there: Vec<String> =
            ["k", "_ZN1a1tILi3EEEvPf", "_ZN1a1tILi4EEEvPf", "_Z6kernelIfLi4EEvPT_"].map(str::to_owned).into();
        let of = |wanted: &str| named(wanted, &there);
        assert_eq!(of("k"), ["k"]);
        assert_eq!(of("_ZN1a1tILi3EEEvPf"), ["_ZN1a1tILi3EEEvPf"]);
        assert_eq!(of("a::t<3>"), ["_ZN1a1tILi3EEEvPf"]);
        assert_eq!(of("t<4>"), ["_ZN1a1tILi4EEEvPf"]);
        assert_eq!(of("kernel<float,4>"), ["_Z6kernelIfLi4EEvPT_"]);
        assert_eq!(of("kernel"), ["_Z6kernelIfLi4EEvPT_"]);
        assert_eq!(of("t"), ["_ZN1a1tILi3EEEvPf", "_ZN1a1tILi4EEEvPf"]);
        assert_eq!(of("*<4>"), ["_ZN1a1tILi4EEEvPf"]);
        assert_eq!(of("*4>").len(), 2);
        assert_eq!(of("kern*"), ["_Z6kernelIfLi4EEvPT_"]);
        assert!(of("el").is_empty() && of("nope").is_empty());
        assert_eq!(demangled("_ZN1a1tILi3EEEvPf"), "a::t<3>");
    }
}
