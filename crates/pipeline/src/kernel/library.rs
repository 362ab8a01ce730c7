//! Loads kernels and their include files from the binary or a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::model::{Header, Kernel, MmaPath};
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
    #[error("{}:{line}: {message}", path.display())]
    Meaning {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
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

/// Checks the header of a kernel: the key that is wrong, and what is wrong with it.
pub type Check = fn(&Kernel) -> Result<(), (&'static str, String)>;

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

impl Library {
    /// The kernels of the binary.
    ///
    /// # Errors
    /// [`KernelError`]; a test reads all of them.
    pub fn embedded() -> Result<Self, KernelError> {
        let mut library = Self::default();
        for (path, text) in data::KERNELS.files() {
            // A test checks them.
            library.add(Path::new(path), text, false, |_| Ok(()))?;
        }
        Ok(library)
    }

    /// Whether any source tests the compilation target (`__CUDA_ARCH__` and related macros). The built-in sources compare the number alone,
    /// with GPUs before SM12x: all targets of SM12x compile the same of them.
    #[must_use]
    pub fn asks_for_target(&self) -> bool {
        let of = |own: bool| {
            self.kernels.iter().filter(move |kernel| kernel.own == own).map(|kernel| &kernel.text)
        };
        let asks = |text: &String| text.contains("__CUDA_ARCH");
        let asks_for_more = |text: &String| text.replace("__CUDA_ARCH__", "").contains("__CUDA_ARCH");
        of(true).chain(self.own_includes.values()).any(asks)
            || of(false).chain(self.includes.values()).any(asks_for_more)
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
    /// and load. `check` checks the headers of its kernels. Its `.cuh` files are seen by its kernels; if it has none, they replace the built-in ones of the same name.
    ///
    /// # Errors
    /// [`KernelError`] with the file and line.
    pub fn with_folder(folder: &Path, check: Check) -> Result<Self, KernelError> {
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
                own.add(&path, &text, true, check)?;
            }
        }
        if own.kernels.is_empty() && own.includes.is_empty() {
            let message = "the folder has neither a .cu file with a `//@` header nor a .cuh file".to_owned();
            return Err(KernelError::Meaning { path: folder.to_owned(), line: 1, message });
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
                return Err(KernelError::Meaning { path: folder.to_owned(), line: 1, message });
            }
            library.includes.extend(own.includes);
        } else {
            library.own_includes = own.includes;
        }
        own.kernels.append(&mut library.kernels);
        library.kernels = own.kernels;
        Ok(library)
    }

    fn add(&mut self, path: &Path, text: &str, own: bool, check: Check) -> Result<(), KernelError> {
        let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if path.extension().is_some_and(|e| e == "cuh") {
            self.includes.insert(file, text.to_owned());
            return Ok(());
        }
        let wrong = |message: &str| KernelError::Meaning {
            path: path.to_owned(),
            line: 1,
            message: message.to_owned(),
        };
        let yaml =
            header::split(text).yaml.ok_or_else(|| wrong("a kernel must begin with a `//@` header"))?;
        let h: Header = header::parse_block(path, &yaml)?;
        if h.grid.is_empty() || h.grid.len() > 3 {
            return Err(wrong("`grid` needs one to three expressions"));
        }
        let axis = |n: usize| h.grid.get(n).cloned().unwrap_or_else(|| "1".to_owned());
        let kernel = Kernel {
            grid: [axis(0), axis(1), axis(2)],
            file,
            text: text.to_owned(),
            family: h.family,
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
        };
        check(&kernel).map_err(|(key, message)| {
            let names = |line: &str| {
                let field = line.strip_prefix("//@").map(str::trim_start);
                field.is_some_and(|field| field.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
            };
            let line = text.lines().position(names).map_or(1, |n| n + 1);
            KernelError::Meaning { path: path.to_owned(), line, message }
        })?;
        self.kernels.push(kernel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_sees_the_headers_of_its_own_folder() {
        let folder = tempfile::tempdir().unwrap();
        let ours = Library::embedded().unwrap();
        let text = |name: &str| ours.kernels.iter().find(|k| k.file == name).unwrap().text.clone();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        // Headers alone replace the built-in ones, if these have the names.
        write("other.cuh", "int other;");
        let error = Library::with_folder(folder.path(), |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("no built-in kernel includes other.cuh"), "{error}");
        write("mx.cuh", "int own;");
        let library = Library::with_folder(folder.path(), |_| Ok(())).unwrap();
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
        let library = Library::with_folder(folder.path(), |_| Ok(())).unwrap();
        let own = kernel(&library, true, "finalize.cu");
        assert_eq!(of(&library, &own, "mx.cuh").unwrap(), "int own;");
        assert_eq!(of(&library, &own, "format.cuh"), ours.includes.get("format.cuh").cloned());
        assert_eq!(of(&library, &quantize, "mx.cuh").unwrap(), ours.includes["mx.cuh"]);
        assert_eq!(of(&library, &quantize, "other.cuh"), None);
    }

    #[test]
    fn mistakes_name_the_file_and_the_line() {
        let mut library = Library::default();
        let check: Check = |kernel| match kernel.stage.as_str() {
            "known" => Ok(()),
            other => Err(("stage", format!("unknown stage `{other}`"))),
        };
        let mut said =
            |text: &str| library.add(Path::new("k.cu"), text, true, check).unwrap_err().to_string();
        assert_eq!(said("int x;"), "k.cu:1: a kernel must begin with a `//@` header");
        let good = "//@ about: x\n//@ stage: known\n//@ entry: e\n//@ grid: [\"1\"]\n//@ block: \"32\"\n//@ args: []\n//@ contract: {deterministic: true}\n";
        assert!(said(&good.replace("entry: e", "entri: e")).starts_with("k.cu:3:"));
        assert_eq!(said(&good.replace("known", "gem")), "k.cu:2: unknown stage `gem`");
        assert!(library.add(Path::new("k.cu"), good, true, check).is_ok());
    }
}
