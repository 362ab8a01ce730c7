//! The families of kernels: the list that registers them.

use crate::frame::family::Family;
use crate::kernel::Kernel;

/// Every family, in the order of reports.
pub static FAMILIES: [&dyn Family; 3] =
    [&crate::moe::family::MOE, &crate::attention::family::ATTENTION, &crate::kv_cache::family::KV_CACHE];

/// Returns the family of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Family> {
    FAMILIES.into_iter().find(|family| family.name() == name)
}

/// Checks that a kernel's family exists, and that the family understands its header.
///
/// # Errors
/// The key of the header that is wrong, and what is wrong with it, in a sentence.
pub fn check_kernel(kernel: &Kernel) -> Result<(), (&'static str, String)> {
    match find(&kernel.family) {
        Some(family) => family.check_kernel(kernel),
        None => {
            let known: Vec<&str> = FAMILIES.iter().map(|family| family.name()).collect();
            let known = known.join(", ");
            Err(("family", format!("there is no family `{}`; the families are {known}", kernel.family)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kernel::Library;

    #[test]
    fn every_built_in_kernel_and_case_belongs_to_a_family() {
        for kernel in Library::embedded().unwrap().kernels {
            assert_eq!(check_kernel(&kernel), Ok(()), "{}", kernel.file);
        }
        let mut names = BTreeSet::new();
        for family in FAMILIES {
            assert_eq!(find(family.name()).map(Family::name), Some(family.name()));
            assert!(family.problems().is_empty(), "{:?}", family.problems());
            for case in family.cases() {
                assert!(names.insert(case.name.clone()), "two cases are called {}", case.name);
            }
            // Each stage that a trial may be blocked at is one of the family's.
            let stages = family.row().stages;
            let cases: Vec<String> = family.cases().into_iter().map(|case| case.name).collect();
            let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
            for trial in family.default_set(&cases) {
                let blocked = trial.blocked().map(|(stage, _)| stage);
                assert!(
                    blocked.is_none_or(|stage| stages.iter().any(|row| row.name == stage)),
                    "{}",
                    trial.name()
                );
            }
        }
    }
}
