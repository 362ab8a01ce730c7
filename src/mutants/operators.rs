//! The mutation operators: generates every one-line fault of a file.

use std::collections::BTreeSet;

use super::expression::{Call, Code};
use super::lexer::Kind;
use super::model::{Edit, Mutant, Operator};
use super::ptx;

/// Functions with commutative arguments, which are not exchanged.
const SYMMETRIC: [&str; 12] = [
    "min",
    "max",
    "fminf",
    "fmaxf",
    "fmin",
    "fmax",
    "__fadd_rn",
    "__fmul_rn",
    "__mul24",
    "__umulhi",
    "__hadd",
    "__hmul",
];

/// 64-bit types in casts.
const WIDE: [&str; 8] = ["u64", "i64", "size_t", "uint64_t", "int64_t", "uintptr_t", "long", "ptrdiff_t"];

/// Built-in indices and sizes with an axis.
const INDICES: [&str; 4] = ["threadIdx", "blockIdx", "blockDim", "gridDim"];

/// Returns every mutant of a file, sorted by line. Edits with the same resulting line are one mutant.
#[must_use]
pub fn mutants(file: &str, text: &str) -> Vec<Mutant> {
    let code = Code::new(text);
    let mut edits = Vec::new();
    let mut attribute_ends = 0;
    for n in 0..code.tokens.len() {
        match code.kind(n) {
            Kind::Word => {
                // The constants of launch bounds and alignments are not mutated.
                if ["__launch_bounds__", "__align__"].contains(&code.word(n)) {
                    attribute_ends = code.partner(n + 1).unwrap_or(n);
                }
                of_word(&code, n, &mut edits);
            }
            Kind::Number if n > attribute_ends => {
                let at = code.tokens[n].at.clone();
                let of = |(operator, new)| Edit { operator, at: at.clone(), new };
                edits.extend(neighbours(code.word(n)).into_iter().map(of));
            }
            Kind::Sign => of_sign(&code, n, &mut edits),
            Kind::Open => of_cast(&code, n, &mut edits),
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    let mut out: Vec<Mutant> = edits.iter().filter_map(|e| Mutant::from_edit(file, text, e)).collect();
    out.retain(|m| seen.insert((m.line, m.after.clone())));
    out.sort_by_key(|m| m.line);
    out
}

/// Returns an integer literal plus and minus one, in the same notation.
pub(super) fn neighbours(word: &str) -> Vec<(Operator, String)> {
    let plain = word.replace('\'', "");
    let is_hex = plain.starts_with("0x") || plain.starts_with("0X");
    let digits = if is_hex { &plain[2..] } else { plain.as_str() };
    let end = digits.find(|c: char| !c.is_digit(if is_hex { 16 } else { 10 })).unwrap_or(digits.len());
    let (digits, suffix) = digits.split_at(end);
    let radix = if is_hex { 16 } else { 10 };
    let is_suffix = suffix.chars().all(|c| matches!(c, 'u' | 'U' | 'l' | 'L'));
    let Ok(value) = u64::from_str_radix(digits, radix) else { return Vec::new() };
    if !is_suffix {
        return Vec::new();
    }
    let width = digits.len();
    let shown = |value: u64| {
        if is_hex { format!("0x{value:0width$X}{suffix}") } else { format!("{value}{suffix}") }
    };
    let down = value.checked_sub(1).map_or_else(|| "(-1)".to_owned(), shown);
    let up = value.checked_add(1).map(|v| (Operator::ConstantUp, shown(v)));
    up.into_iter().chain([(Operator::ConstantDown, down)]).collect()
}

fn of_sign(code: &Code<'_>, n: usize, out: &mut Vec<Edit>) {
    let at = code.tokens[n].at.clone();
    let sign = code.word(n);
    let other = match sign {
        "<" => "<=",
        "<=" => "<",
        ">" => ">=",
        ">=" => ">",
        "==" => "!=",
        "!=" => "==",
        _ => "",
    };
    if !other.is_empty() && !is_template(code, n) {
        out.push(Edit { operator: Operator::Comparison, at: at.clone(), new: other.to_owned() });
    }
    match sign {
        "-" if code.is_unary(n) => {
            out.push(Edit { operator: Operator::Sign, at, new: String::new() });
            return;
        }
        "+" | "-" | "+=" | "-=" if !code.is_unary(n) => {
            let new = if sign.starts_with('+') { sign.replace('+', "-") } else { sign.replace('-', "+") };
            out.push(Edit { operator: Operator::Sign, at, new });
        }
        "<<=" | ">>=" => {
            if let Some((_, right)) = code.operands(n) {
                out.push(Edit { operator: Operator::Shift, at: code.bytes(&right), new: "0".to_owned() });
            }
        }
        "?" => of_arms(code, n, out),
        _ => {}
    }
    let Some((left, right)) = code.operands(n) else { return };
    let whole = code.bytes(&left).start..code.bytes(&right).end;
    let (of_left, of_right) = (&code.text[code.bytes(&left)], &code.text[code.bytes(&right)]);
    let mut edit = |operator, new: String| out.push(Edit { operator, at: whole.clone(), new });
    match sign {
        "-" | "/" | "%" | "<<" | ">>" => {
            if of_left != of_right {
                edit(Operator::Swap, format!("{} {sign} {}", code.grouped(&right), code.grouped(&left)));
            }
            if ["<<", ">>"].contains(&sign) {
                edit(Operator::Shift, of_left.to_owned());
            }
        }
        "&&" | "||" => {
            edit(Operator::Condition, of_left.to_owned());
            edit(Operator::Condition, of_right.to_owned());
        }
        _ => {}
    }
}

/// Whether `<` or `>` delimits template parameters or arguments: `template <bool A>`, `name<word>(`, `Name<word>&`.
fn is_template(code: &Code<'_>, n: usize) -> bool {
    let opens_at = |open: usize| {
        let name = open.checked_sub(1).map_or("", |m| code.word(m));
        let used = code.word(open + 2) == ">" && ["(", "&", "::"].contains(&code.word(open + 3));
        code.word(open) == "<" && (name == "template" || used)
    };
    match code.word(n) {
        "<" => opens_at(n),
        _ => [2, 3].into_iter().any(|back| n >= back && opens_at(n - back)),
    }
}

fn of_arms(code: &Code<'_>, n: usize, out: &mut Vec<Edit>) {
    let Some([condition, first, second]) = code.arms(n) else { return };
    let at = code.bytes(&condition).start..code.bytes(&second).end;
    for arm in [first, second] {
        out.push(Edit {
            operator: Operator::Arm,
            at: at.clone(),
            new: code.text[code.bytes(&arm)].to_owned(),
        });
    }
}

fn of_word(code: &Code<'_>, n: usize, out: &mut Vec<Edit>) {
    let word = code.word(n);
    if ["asm", "__asm__"].contains(&word) {
        of_asm(code, n, out);
    }
    if INDICES.contains(&word) && code.word(n + 1) == "." {
        let other = if code.word(n + 2) == "x" { "y" } else { "x" };
        out.push(Edit { operator: Operator::Axis, at: code.tokens[n + 2].at.clone(), new: other.to_owned() });
    }
    if let Some(call) = code.call(n) {
        of_call(code, word, &call, out);
    }
}

fn of_call(code: &Code<'_>, name: &str, call: &Call, out: &mut Vec<Edit>) {
    let whole = code.bytes(&(call.name..=call.close));
    let dropped = match name {
        "__syncthreads" | "__syncwarp" => Some(Operator::Barrier),
        _ if name.starts_with("__threadfence") => Some(Operator::Fence),
        _ if name.contains("wait") => Some(Operator::Wait),
        _ => None,
    };
    if let Some(operator) = dropped.filter(|_| code.is_statement(call)) {
        out.push(Edit { operator, at: whole.clone(), new: String::new() });
    }
    let [first, second] = call.arguments.as_slice() else { return };
    let (a, b) = (&code.text[code.bytes(first)], &code.text[code.bytes(second)]);
    let at = code.bytes(first).start..code.bytes(second).end;
    if a != b && !SYMMETRIC.contains(&name) {
        out.push(Edit { operator: Operator::Swap, at, new: format!("{b}, {a}") });
    }
    if ["min", "max"].iter().any(|m| name.contains(m)) {
        for bound in [first, second] {
            out.push(Edit { operator: Operator::Saturation, at: whole.clone(), new: code.grouped(bound) });
        }
    }
}

fn of_cast(code: &Code<'_>, n: usize, out: &mut Vec<Edit>) {
    let is_cast = code.word(n) == "(" && WIDE.contains(&code.word(n + 1)) && code.word(n + 2) == ")";
    let casts = matches!(code.kind(n + 3), Kind::Word | Kind::Number | Kind::Open);
    if is_cast && casts {
        out.push(Edit { operator: Operator::Cast, at: code.bytes(&(n..=n + 2)), new: String::new() });
    }
}

/// Mutates the PTX of an `asm` statement: the strings before its first colon.
fn of_asm(code: &Code<'_>, n: usize, out: &mut Vec<Edit>) {
    let open = (n + 1..=n + 2).find(|m| code.word(*m) == "(");
    let Some((open, close)) = open.and_then(|open| Some((open, code.partner(open)?))) else { return };
    let end = (open..close).find(|m| [":", "::"].contains(&code.word(*m))).unwrap_or(close);
    let strings: Vec<usize> = (open..end).filter(|m| code.kind(*m) == Kind::Text).collect();
    let inside = |m: usize| {
        let at = &code.tokens[m].at;
        at.start + 1..(at.end - 1).max(at.start + 1)
    };
    let whole: String = strings.iter().map(|m| &code.text[inside(*m)]).collect();
    for m in strings {
        let at = inside(m);
        ptx::edits(&code.text[at.clone()], at.start, &whole, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, operator: Operator) -> Vec<String> {
        mutants("k.cu", text).into_iter().filter(|m| m.operator == operator).map(|m| m.after).collect()
    }

    #[test]
    fn every_operator_makes_its_fault() {
        use Operator::*;
        for (text, operator, made) in [
            ("x = 7;", ConstantUp, vec!["x = 8;"]),
            ("x = 0x0Fu;", ConstantDown, vec!["x = 0x0Eu;"]),
            ("x = 0;", ConstantDown, vec!["x = (-1);"]),
            ("x = 1.5f + 1e3;", ConstantUp, vec![]),
            ("if (a < b)", Comparison, vec!["if (a <= b)"]),
            ("template <bool A> f<A>(x); T<true>(y); const W<A>& z", Comparison, vec![]),
            ("x = a + b - c;", Swap, vec!["x = c - (a + b);"]),
            ("y = f(a, b + 1) + min(a, b);", Swap, vec!["y = f(b + 1, a) + min(a, b);"]),
            ("    __syncthreads();", Barrier, vec![";"]),
            (
                "asm volatile(\"fence.sc.cta;\" ::: \"memory\");",
                Fence,
                vec!["asm volatile(\"\" ::: \"memory\");"],
            ),
            ("wait_for(a, 1);", Wait, vec![";"]),
            (
                "asm(\"red.release.gpu.add.u32 [%0], %1;\" :: \"r\"(1));",
                Order,
                vec!["asm(\"red.relaxed.gpu.add.u32 [%0], %1;\" :: \"r\"(1));"],
            ),
            (
                "asm(\"red.relaxed.sys.add.u32 [%0], %1;\");",
                Scope,
                vec!["asm(\"red.relaxed.gpu.add.u32 [%0], %1;\");"],
            ),
            (
                "r = blockIdx.y * 2 + threadIdx.x;",
                Axis,
                vec!["r = blockIdx.x * 2 + threadIdx.x;", "r = blockIdx.y * 2 + threadIdx.y;"],
            ),
            ("x = a << 2 | b;", Shift, vec!["x = a | b;"]),
            ("x >>= 16;", Shift, vec!["x >>= 0;"]),
            ("x = -y;", Sign, vec!["x = y;"]),
            ("x += a - b;", Sign, vec!["x -= a - b;", "x += a + b;"]),
            ("x = min(a, b + 1);", Saturation, vec!["x = a;", "x = (b + 1);"]),
            ("if (a < n && b)", Condition, vec!["if (a < n)", "if (b)"]),
            ("x = c ? 16 : 0;", Arm, vec!["x = 16;", "x = 0;"]),
            ("p + (u64)row * k + (u32)x", Cast, vec!["p + row * k + (u32)x"]),
        ] {
            assert_eq!(after(text, operator), made, "{} in {text}", operator.word());
        }
    }

    #[test]
    fn nothing_is_made_of_comments_directives_strings_and_bounds() {
        for text in [
            "// a < b + 1",
            "/* x = 1;\n y = 2; */",
            "#if TILE_K < 128",
            "#pragma unroll 4",
            "#include \"a1.cuh\"",
            "f(\"1 < 2\");",
            "__launch_bounds__(128)",
        ] {
            assert_eq!(mutants("k.cu", text), [], "{text}");
        }
        assert_eq!(after("#define A (B / 16)", Operator::ConstantUp), ["#define A (B / 17)"]);
    }

    #[test]
    fn a_mutant_changes_one_line_and_names_it() {
        let text = "a;\n  b = c[1];\nd;\n";
        let all = mutants("k.cu", text);
        assert_eq!(all.len(), 2);
        let up = &all[0];
        assert_eq!((up.line, up.before.as_str(), up.after.as_str()), (2, "b = c[1];", "b = c[2];"));
        assert_eq!(up.text, "a;\n  b = c[2];\nd;\n");
        // An edit that spans lines is not made.
        assert_eq!(after("x = a -\n    b;", Operator::Swap), Vec::<String>::new());
    }
}
