//! Loads kernels and their include files from the binary or a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::model::{Atomics, ExpKind, Header, Kernel, Load, MmaPath};
use crate::case::FormatPair;
use crate::kernel::KernelStage;
use toolchain::header::{self, HeaderError};

/// Why kernels cannot be loaded or found.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file or folder cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A header cannot be parsed.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A header is inconsistent.
    #[error("{}:1: {message}", path.display())]
    Meaning {
        /// The file.
        path: PathBuf,
        /// The problem and its remedy.
        message: String,
    },
    /// No kernel implements a stage.
    #[error("no kernel for {what}{there}; write one whose header names the stage (CONTRIBUTING)")]
    Missing {
        /// The stage and variant.
        what: String,
        /// The available kernels of the stage.
        there: String,
    },
}

/// Kernels and their include files.
#[derive(Debug, Clone, Default)]
pub struct Library {
    /// Kernels in search order: the user's first, each group sorted by file name.
    pub kernels: Vec<Kernel>,
    /// Built-in `.cuh` files by name; of a folder without kernels, its own ones instead of those of the same name.
    pub includes: BTreeMap<String, String>,
    /// `.cuh` files of a folder with kernels. Only these see them, before the built-in ones.
    pub own_includes: BTreeMap<String, String>,
}

/// Selects one of several kernels of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// How e^x is computed, if the kernel computes it.
    pub exp: ExpKind,
    /// How the rows of a token are added.
    pub atomics: Atomics,
    /// The operand formats.
    pub pair: FormatPair,
}

impl Variant {
    /// e^x by FMA, and sums in slot order.
    pub const OURS: Self = Self { exp: ExpKind::Fma, atomics: Atomics::None, pair: FormatPair::Mxfp8Mxfp4 };

    fn is_of(self, kernel: &Kernel) -> bool {
        let exp = kernel.contract.exp == ExpKind::None || kernel.contract.exp == self.exp;
        exp && kernel.takes(self.pair)
            && (kernel.stage != KernelStage::Finalize || kernel.contract.atomics == self.atomics)
    }
}

impl Library {
    /// The kernels of the binary.
    ///
    /// # Errors
    /// [`KernelError`]; a test reads all of them.
    pub fn embedded() -> Result<Self, KernelError> {
        let mut library = Self::default();
        for (path, text) in data::KERNELS.files() {
            library.add(Path::new(path), text, false)?;
        }
        Ok(library)
    }

    /// Whether any source tests the compilation target (`__CUDA_ARCH__` and related macros).
    #[must_use]
    pub fn asks_for_target(&self) -> bool {
        let headers = self.includes.values().chain(self.own_includes.values());
        let texts = self.kernels.iter().map(|kernel| &kernel.text).chain(headers);
        texts.into_iter().any(|text| text.contains("__CUDA_ARCH"))
    }

    /// Returns the header that a kernel includes by this name, and its text: a kernel of a folder sees the folder's headers before
    /// the built-in ones, a built-in kernel sees only the latter.
    #[must_use]
    pub fn header(&self, kernel: &Kernel, name: &str) -> Option<(&String, &String)> {
        let own = if kernel.own { self.own_includes.get_key_value(name) } else { None };
        own.or_else(|| self.includes.get_key_value(name))
    }

    /// Returns the text of a header of the folder or, if it has none of this name, of the built-in one.
    #[must_use]
    pub fn header_text(&self, name: &str) -> Option<&String> {
        self.own_includes.get(name).or_else(|| self.includes.get(name))
    }

    /// Replaces the text of a `.cu` or `.cuh` file of the folder.
    pub fn replace(&mut self, file: &str, text: &str) {
        let header = match self.own_includes.get_mut(file) {
            Some(own) => Some(own),
            None => self.includes.get_mut(file),
        };
        if let Some(header) = header {
            text.clone_into(header);
        }
        for kernel in self.kernels.iter_mut().filter(|k| k.own && k.file == file) {
            text.clone_into(&mut kernel.text);
        }
    }

    /// Loads the built-in kernels and those of `folder`. A kernel of the folder replaces the built-in one of the same stage, path
    /// and load. Its `.cuh` files are seen by its kernels; if it has none, they replace the built-in ones of the same name.
    ///
    /// # Errors
    /// [`KernelError`] with the file and line.
    pub fn with_folder(folder: &Path) -> Result<Self, KernelError> {
        let mut own = Self::default();
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| KernelError::Read { path, source }
        };
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable(folder))? {
            paths.push(entry.map_err(unreadable(folder))?.path());
        }
        paths.sort();
        for path in paths {
            if path.extension().is_some_and(|e| e == "cu" || e == "cuh") {
                let text = fs::read_to_string(&path).map_err(unreadable(&path))?;
                own.add(&path, &text, true)?;
            }
        }
        if own.kernels.is_empty() && own.includes.is_empty() {
            let message = "the folder has neither a .cu file with a `//@` header nor a .cuh file".to_owned();
            return Err(KernelError::Meaning { path: folder.to_owned(), message });
        }
        let mut library = Self::embedded()?;
        if own.kernels.is_empty() {
            let unused: Vec<&str> = own
                .includes
                .keys()
                .filter(|name| !library.includes.contains_key(*name))
                .map(String::as_str)
                .collect();
            // Headers that only other headers of the folder include are in use, too.
            if unused.len() == own.includes.len() {
                let message = format!(
                    "the folder has no .cu file, and no built-in kernel includes {}: nothing of it would run",
                    unused.join(" or ")
                );
                return Err(KernelError::Meaning { path: folder.to_owned(), message });
            }
            library.includes.extend(own.includes);
        } else {
            library.own_includes = own.includes;
        }
        own.kernels.append(&mut library.kernels);
        library.kernels = own.kernels;
        Ok(library)
    }

    fn add(&mut self, path: &Path, text: &str, own: bool) -> Result<(), KernelError> {
        let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if path.extension().is_some_and(|e| e == "cuh") {
            self.includes.insert(file, text.to_owned());
            return Ok(());
        }
        let wrong =
            |message: &str| KernelError::Meaning { path: path.to_owned(), message: message.to_owned() };
        let yaml =
            header::split(text).yaml.ok_or_else(|| wrong("a kernel must begin with a `//@` header"))?;
        let h: Header = header::parse_block(path, &yaml)?;
        if (h.stage == KernelStage::Gemm) != (h.load.is_some() && !h.paths.is_empty()) {
            return Err(wrong("`paths` and `load` are required for a GEMM and not allowed for other stages"));
        }
        if h.grid.is_empty() || h.grid.len() > 3 {
            return Err(wrong("`grid` needs one to three expressions"));
        }
        let axis = |n: usize| h.grid.get(n).cloned().unwrap_or_else(|| "1".to_owned());
        self.kernels.push(Kernel {
            grid: [axis(0), axis(1), axis(2)],
            file,
            text: text.to_owned(),
            about: h.about,
            stage: h.stage,
            entry: h.entry,
            paths: h.paths,
            load: h.load,
            needs: h.needs,
            needs_of: BTreeMap::from([
                (MmaPath::Native, h.needs_native),
                (MmaPath::Portable, h.needs_portable),
                (MmaPath::Gemv, h.needs_gemv),
            ]),
            formats: h.formats,
            packed: h.packed,
            defines: h.defines,
            block: h.block,
            smem: h.smem.unwrap_or_else(|| "0".to_owned()),
            args: h.args,
            contract: h.contract,
            own,
        });
        Ok(())
    }

    /// Returns the kernel of a stage other than a GEMM. The user's kernels come first: the one that matches the variant, otherwise
    /// any that supports the formats. Then follow the built-in kernels that match the variant. A stage without variants has one
    /// kernel for all.
    ///
    /// # Errors
    /// [`KernelError::Missing`] if there is none.
    pub fn of_stage(&self, stage: KernelStage, variant: Variant) -> Result<&Kernel, KernelError> {
        let of_stage = || self.kernels.iter().filter(|k| k.stage == stage);
        let own = || of_stage().filter(|k| k.own);
        let found = own().find(|k| variant.is_of(k)).or_else(|| own().find(|k| k.takes(variant.pair)));
        let found = found.or_else(|| of_stage().find(|k| variant.is_of(k)));
        found.ok_or_else(|| self.missing(format!("the stage {}", stage.word()), stage))
    }

    /// Returns the GEMM for a path, a load and these operand formats.
    ///
    /// # Errors
    /// [`KernelError::Missing`] if there is none.
    pub fn gemm(&self, pair: FormatPair, path: MmaPath, load: Load) -> Result<&Kernel, KernelError> {
        let fits = |k: &&Kernel| k.load == Some(load) && k.paths.contains(&path) && k.takes(pair);
        self.kernels.iter().find(fits).ok_or_else(|| {
            let of =
                if pair == FormatPair::default() { String::new() } else { format!(" of {}", pair.word()) };
            let what = format!("the {} GEMM{of} that loads by {}", path.word(), load.word());
            self.missing(what, KernelStage::Gemm)
        })
    }

    fn missing(&self, what: String, stage: KernelStage) -> KernelError {
        let there: Vec<&str> =
            self.kernels.iter().filter(|k| k.stage == stage).map(|k| k.file.as_str()).collect();
        let there =
            if there.is_empty() { String::new() } else { format!(" (available: {})", there.join(" ")) };
        KernelError::Missing { what, there }
    }
}

#[cfg(test)]
mod tests {
    use super::super::expression::NAMES;
    use super::*;

    #[test]
    fn every_kernel_of_the_binary_is_understood() {
        let library = Library::embedded().unwrap();
        for path in [MmaPath::Native, MmaPath::Portable] {
            for load in [Load::CpAsync, Load::Tma, Load::TmaReplace] {
                for pair in FormatPair::ALL {
                    library.gemm(*pair, path, load).unwrap();
                }
            }
        }
        library.gemm(FormatPair::default(), MmaPath::Gemv, Load::Direct).unwrap();
        for exp in [ExpKind::Fma, ExpKind::Ex2Approx] {
            for atomics in [Atomics::None, Atomics::F32] {
                for stage in [KernelStage::Route, KernelStage::Activation, KernelStage::Finalize] {
                    let of_stage =
                        library.of_stage(stage, Variant { exp, atomics, ..Variant::OURS }).unwrap();
                    assert_eq!(stage == KernelStage::Finalize, of_stage.contract.exp == ExpKind::None);
                }
            }
        }
        let names = NAMES.iter().map(|(name, _)| (*name, 64)).collect();
        for kernel in &library.kernels {
            for text in kernel.grid.iter().chain([&kernel.block, &kernel.smem]) {
                super::super::evaluate(text, &names).unwrap();
            }
        }
    }

    #[test]
    fn each_kernel_sees_the_headers_of_its_own_folder() {
        let folder = tempfile::tempdir().unwrap();
        let ours = Library::embedded().unwrap();
        let text = |name: &str| ours.kernels.iter().find(|k| k.file == name).unwrap().text.clone();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        // Headers alone replace the built-in ones, if these have the names.
        write("other.cuh", "int other;");
        let error = Library::with_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no built-in kernel includes other.cuh"), "{error}");
        write("mx.cuh", "int own;");
        let library = Library::with_folder(folder.path()).unwrap();
        let kernel = |library: &Library, own: bool, file: &str| {
            library.kernels.iter().find(|k| k.own == own && k.file == file).unwrap().clone()
        };
        let of = |library: &Library, kernel: &Kernel, name: &str| {
            library.header(kernel, name).map(|(_, text)| text.clone())
        };
        let quantize = kernel(&library, false, "quantize.cu");
        assert_eq!(of(&library, &quantize, "mx.cuh").unwrap(), "int own;");
        // With a kernel, they are that kernel's.
        write("finalize.cu", &text("finalize.cu"));
        let library = Library::with_folder(folder.path()).unwrap();
        let own = kernel(&library, true, "finalize.cu");
        assert_eq!(of(&library, &own, "mx.cuh").unwrap(), "int own;");
        assert_eq!(of(&library, &own, "format.cuh"), ours.includes.get("format.cuh").cloned());
        assert_eq!(of(&library, &quantize, "mx.cuh").unwrap(), ours.includes["mx.cuh"]);
        assert_eq!(of(&library, &quantize, "other.cuh"), None);
    }

    #[test]
    fn mistakes_name_the_file_and_the_line() {
        let mut library = Library::default();
        let mut said = |text: &str| library.add(Path::new("k.cu"), text, true).unwrap_err().to_string();
        assert_eq!(said("int x;"), "k.cu:1: a kernel must begin with a `//@` header");
        let unknown = "//@ about: x\n//@ stage: gem\n";
        assert!(said(unknown).starts_with("k.cu:2:"), "{}", said(unknown));
        let gemm = "//@ about: x\n//@ stage: gemm\n//@ entry: e\n//@ grid: [\"1\"]\n//@ block: \"32\"\n//@ args: []\n//@ contract: {deterministic: true}\n";
        assert!(said(gemm).contains("required for a GEMM"));
    }
}
