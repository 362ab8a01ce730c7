//! The report as Markdown: the comparison, the families, the claims, then every variant.

mod claims;
mod page;
mod sm12x;

pub use page::markdown;
