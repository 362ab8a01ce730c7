//! What reading and printing PTX cost, in bytes a second: a text of about one megabyte and one of four, so that a cost that
//! grows faster than the text shows.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use sm121probe::ptx;
use sm121probe::snippet::Library;

fn main() {
    divan::main();
}

/// A module of so many bytes at least: the bodies of the built-in snippets, each in an entry of its own.
fn text(bytes: usize) -> String {
    let library = Library::embedded();
    let (Ok(isa), Ok(target)) = ("9.0".parse(), "sm_121a".parse()) else { return String::new() };
    let texts: Vec<String> = library.variants.iter().map(|v| v.code.standalone(isa, target)).collect();
    // Without its header an entry can follow any other.
    let entries: Vec<&str> =
        texts.iter().filter_map(|t| t.split_once(".address_size 64\n")).map(|t| t.1).collect();
    let mut out = ".version 9.0\n.target sm_121a\n.address_size 64\n".to_owned();
    for entry in entries.iter().cycle().take(bytes) {
        if out.len() >= bytes {
            break;
        }
        out.push_str(entry);
    }
    out
}

/// Text to tree.
#[divan::bench(args = [1 << 20, 1 << 22])]
fn parse(bencher: Bencher, bytes: usize) {
    let text = text(bytes);
    bencher.counter(BytesCount::of_str(&text)).bench(|| ptx::parse(black_box(&text)));
}

/// Tree to text.
#[divan::bench(args = [1 << 20])]
fn print(bencher: Bencher, bytes: usize) {
    let text = text(bytes);
    let Ok(module) = ptx::parse(&text) else { return };
    bencher.counter(BytesCount::of_str(&text)).bench(|| black_box(&module).to_string());
}
