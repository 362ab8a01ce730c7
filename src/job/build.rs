//! Compilers under test: every ptxas at a level of optimization, and the driver.

use std::fmt;
use std::io;

use compiler::known::Miscompile;
use ptx::arch::{Target, ToolkitVersion};

use super::ptxas::{Assembler, Failed};
use crate::record::CodeBy;
use crate::toolkit::{Discovery, SelectError, Toolkit};

/// The name of the driver among toolkits.
pub const DRIVER: &str = "driver";

/// A compiler of PTX with its level of optimization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Build {
    /// A ptxas at a level, as in `-O3`.
    Ptxas(Toolkit, u8),
    /// The compiler of a driver, with the driver's CUDA version.
    Driver(String),
}

impl Build {
    /// The compiler without its level.
    #[must_use]
    pub fn code(&self) -> CodeBy {
        match self {
            Self::Ptxas(toolkit, _) => CodeBy::Ptxas(toolkit.version),
            Self::Driver(_) => CodeBy::Jit,
        }
    }

    /// The level; `None` if the compiler has only one.
    #[must_use]
    pub const fn level(&self) -> Option<u8> {
        match self {
            Self::Ptxas(_, level) => Some(*level),
            Self::Driver(_) => None,
        }
    }

    /// Whether it is known to have a miscompile. What a driver has is taken to be what the ptxas of its CUDA version has.
    #[must_use]
    pub fn has(&self, miscompile: &Miscompile) -> bool {
        match self {
            Self::Ptxas(toolkit, level) => miscompile.affects(toolkit.version, *level),
            Self::Driver(cuda) => {
                let version = cuda.parse::<ToolkitVersion>();
                version.is_ok_and(|version| miscompile.affects_some_level(version))
            }
        }
    }

    /// What a GPU loads: the machine code, or the text itself if the driver compiles it.
    ///
    /// # Errors
    /// If ptxas cannot be started or files cannot be written.
    pub fn image(
        &self,
        assembler: &Assembler,
        target: Target,
        text: &str,
    ) -> io::Result<Result<Vec<u8>, Failed>> {
        match self {
            Self::Ptxas(toolkit, level) => assembler.cubin(toolkit, target, *level, text),
            Self::Driver(_) => Ok(Ok(text.as_bytes().to_vec())),
        }
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code().text())?;
        self.level().map_or(Ok(()), |level| write!(f, " -O{level}"))
    }
}

/// Builds as a list: `ptxas 12.9.86 at -O3; ptxas 13.5.37 at -O1 -O3`.
#[must_use]
pub fn in_words<'a>(builds: impl IntoIterator<Item = &'a Build>) -> String {
    let mut by: Vec<(CodeBy, Vec<String>)> = Vec::new();
    for build in builds {
        let level = build.level().map(|level| format!("-O{level}"));
        match by.iter_mut().find(|(code, _)| *code == build.code()) {
            Some((_, levels)) => levels.extend(level),
            None => by.push((build.code(), level.into_iter().collect())),
        }
    }
    let one = |(code, levels): (CodeBy, Vec<String>)| match levels.as_slice() {
        [] => code.text().into_owned(),
        levels => format!("{} at {}", code.text(), levels.join(" ")),
    };
    by.into_iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Selects compilers by the names of toolkits, of which `driver` is one where `cuda`, the driver's version, is given. Levels are for ptxas.
///
/// # Errors
/// [`SelectError`] if the machine lacks a toolkit; of `driver` without a GPU, too.
pub fn select(
    names: &[String],
    levels: &[u8],
    cuda: Option<&str>,
    discovery: &Discovery,
) -> Result<Vec<Build>, SelectError> {
    let (drivers, toolkits): (Vec<String>, Vec<String>) =
        names.iter().cloned().partition(|name| name == DRIVER && cuda.is_some());
    let mut builds = Vec::new();
    if !toolkits.is_empty() {
        for toolkit in discovery.select(&toolkits)? {
            let mut levels = levels.to_vec();
            levels.sort_unstable();
            levels.dedup();
            builds.extend(levels.into_iter().map(|level| Build::Ptxas(toolkit.clone(), level)));
        }
    }
    if let (false, Some(cuda)) = (drivers.is_empty(), cuda) {
        builds.push(Build::Driver(cuda.to_owned()));
    }
    Ok(builds)
}
