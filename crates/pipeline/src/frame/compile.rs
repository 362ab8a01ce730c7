//! Compiles kernels to PTX with one NVRTC, from the source, its macros and the target, and keeps the PTX in the cache.

use std::path::PathBuf;
use std::time::Duration;

use ptx::arch::{Suffix, Target};

use crate::kernel::{Kernel, Library};
use toolchain::store::Store;
use toolchain::toolkit::{self, Include, Nvrtc, NvrtcError, Source};

/// A kernel and its macros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSource<'k> {
    /// The kernel.
    pub kernel: &'k Kernel,
    /// Names and values.
    pub defines: Vec<(String, String)>,
}

/// The kernels of a run in the order of their first launch, each with its PTX.
#[derive(Debug, Clone)]
pub struct Compiled<'k> {
    /// Kernel and PTX.
    pub kernels: Vec<(&'k Kernel, String)>,
}

/// How long NVRTC may take for one kernel.
const LIMIT: Duration = Duration::from_secs(300);

/// An NVRTC with its cache and target.
#[derive(Debug)]
pub struct Compiler<'a> {
    /// The NVRTC.
    pub nvrtc: &'a Nvrtc,
    /// The cache for PTX; `None` keeps nothing.
    pub store: Option<&'a Store>,
    /// This tool's executable, whose hidden subcommand runs NVRTC.
    pub program: PathBuf,
    /// The target of the PTX.
    pub target: Target,
}

impl Compiler<'_> {
    /// Compiles the kernels of a run.
    ///
    /// # Errors
    /// [`NvrtcError`] of the first that does not compile.
    pub fn compiled<'k>(
        &self,
        library: &Library,
        sources: &[KernelSource<'k>],
    ) -> Result<Compiled<'k>, NvrtcError> {
        let ptx = |source: &KernelSource<'k>| {
            Ok((source.kernel, self.ptx(library, source.kernel, &source.defines)?))
        };
        Ok(Compiled { kernels: sources.iter().map(ptx).collect::<Result<_, NvrtcError>>()? })
    }

    /// Compiles a kernel with these macros to PTX.
    ///
    /// # Errors
    /// [`NvrtcError`]; for a source that does not compile, it has the log and the source lines that the log names.
    pub fn ptx(
        &self,
        library: &Library,
        kernel: &Kernel,
        defines: &[(String, String)],
    ) -> Result<String, NvrtcError> {
        // A change to a file that the kernel does not include must not recompile it.
        let headers = included(library, kernel);
        let target = compiled_for(self.target, kernel, &headers);
        let mut options = toolkit::options_for(target);
        options.extend(defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        options.extend(kernel.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        let source = Source { text: &kernel.text, name: &kernel.file, options, headers };
        let ptx = toolkit::compile(self.nvrtc, &source, self.store, &self.program, LIMIT)?.ptx;
        if target == self.target {
            return Ok(ptx);
        }
        Ok(ptx.replacen(&format!(".target {target}"), &format!(".target {}", self.target), 1))
    }
}

/// The target for which NVRTC compiles a kernel: for `sm_121f` it is `sm_121a`, unless the source may tell them apart.
///
/// NVRTC gives both the same macros but those that state the suffix (`__CUDA_ARCH_FEAT_SM121_ALL`, `__CUDA_ARCH_SPECIFIC__`,
/// `__CUDA_ARCH_FAMILY_SPECIFIC__`), and chooses no instruction by it, so that the PTX differs in `.target` alone: a test compares
/// them. One program for both halves what NVRTC does.
fn compiled_for(target: Target, kernel: &Kernel, headers: &[Include]) -> Target {
    let tells_apart = |text: &str| {
        // What a header that is not one of these asks for is unknown.
        let unknown = |line: &str| {
            let include = line
                .trim_start()
                .strip_prefix('#')
                .and_then(|rest| rest.trim_start().strip_prefix("include"));
            let name = include
                .map(|rest| rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next()));
            name.is_some_and(|name| name.is_none_or(|name| headers.iter().all(|header| header.name != name)))
        };
        // `__CUDA_ARCH__` is a number.
        text.replace("__CUDA_ARCH__", "").contains("__CUDA_ARCH") || text.lines().any(unknown)
    };
    let mut texts = headers.iter().map(|header| header.text.as_str()).chain([kernel.text.as_str()]);
    let macros = kernel.defines.iter().any(|(_, value)| value.contains("__CUDA_ARCH"));
    if target.number != 121 || target.suffix != Suffix::Family || macros || texts.any(tells_apart) {
        return target;
    }
    Target { suffix: Suffix::Arch, ..target }
}

/// Returns the headers that a kernel includes, directly or indirectly.
#[must_use]
pub fn included(library: &Library, kernel: &Kernel) -> Vec<Include> {
    let mut found: Vec<Include> = Vec::new();
    let mut texts = vec![kernel.text.as_str()];
    while let Some(text) = texts.pop() {
        for line in text.lines() {
            let name = line.trim_start().strip_prefix("#include \"").and_then(|rest| rest.split('"').next());
            if let Some((name, text)) = name.and_then(|name| library.header(kernel, name))
                && found.iter().all(|include| include.name != *name)
            {
                found.push(Include { name: name.clone(), text: text.clone() });
                texts.push(text);
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target for which a kernel of `sm_121f` is compiled, with this text before its own.
    fn chosen(library: &Library, kernel: &Kernel, text: &str) -> String {
        let kernel = Kernel { text: format!("{text}\n{}", kernel.text), ..kernel.clone() };
        let headers = included(library, &kernel);
        compiled_for("sm_121f".parse().unwrap(), &kernel, &headers).to_string()
    }

    #[test]
    fn a_source_that_may_tell_the_suffixes_apart_is_compiled_for_its_own() {
        let library = Library::embedded().unwrap();
        for kernel in &library.kernels {
            assert_eq!(chosen(&library, kernel, ""), "sm_121a", "{}", kernel.file);
            let headers = included(&library, kernel);
            for other in ["sm_120f", "sm_121a", "sm_121", "sm_103f"] {
                let target: Target = other.parse().unwrap();
                assert_eq!(compiled_for(target, kernel, &headers), target, "{}", kernel.file);
            }
        }
        let kernel = &library.kernels[0];
        assert_eq!(chosen(&library, kernel, "#if __CUDA_ARCH__ >= 1200\n#endif"), "sm_121a");
        for text in [
            "#ifdef __CUDA_ARCH_FEAT_SM121_ALL\n#endif",
            "#if __CUDA_ARCH_FAMILY_SPECIFIC__ == 1210\n#endif",
            "#include <cuda_fp16.h>",
            "#include \"cuda_fp16.h\"",
            "#  include<cuda/std/array>",
            "#include HEADER",
        ] {
            assert_eq!(chosen(&library, kernel, text), "sm_121f", "{text}");
        }
    }
}
