//! Splits a module into its kernels, each a module of its own.

use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use crate::{Error, Result};

/// A kernel as a module of its own.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct KernelModule {
    /// The kernel's symbol.
    pub name: String,
    /// The kernel's PTX: the head of the original module, the variables that the kernel mentions, and its
    /// entry.
    pub ptx: String,
}

impl KernelModule {
    /// Returns a hash of the PTX, in hexadecimal: the first half of SHA-256.
    #[must_use]
    pub fn hash(&self) -> String {
        let digest = Sha256::digest(self.ptx.as_bytes());
        let half = digest.iter().take(16);
        half.map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Splits a module whose kernels share no functions into its kernels, sorted by name.
///
/// The compiler numbers labels and constants throughout the module. Here each kernel has its own numbers,
/// so that its PTX does not depend on the kernels before it.
///
/// # Errors
///
/// [`Error::Split`] for a module with a top-level item other than directives, variables and entries.
pub fn split(ptx: &str) -> Result<Vec<KernelModule>> {
    let mut head = String::new();
    let mut variables: Vec<(&str, &str)> = Vec::new();
    let mut kernels = Vec::new();
    let mut lines = ptx.lines();
    while let Some(line) = lines.next() {
        match top_level(line) {
            Item::Directive => head.extend([line, "\n"]),
            Item::Variable(name) => variables.push((name, line)),
            Item::Entry(name) => {
                let mut text = vec![line];
                text.extend(rest_of_entry(&mut lines));
                kernels.push((name, text));
            }
            Item::Empty => {}
            Item::Unknown => return Err(Error::Split(line.to_owned())),
        }
    }
    let module = |(name, text): &(&str, Vec<&str>)| {
        let words: HashSet<&str> = text.iter().flat_map(|line| words(line)).collect();
        let used = || variables.iter().filter(|(name, _)| words.contains(name));
        let numbered = |name: &str| name.contains("_$_").then(|| name.to_owned());
        let constants: Vec<String> = used().filter_map(|(name, _)| numbered(name)).collect();
        let names = Names {
            constants: (constants.iter().enumerate())
                .map(|(index, name)| (name.as_str(), format!("constant_{index}")))
                .collect(),
        };
        let mut ptx = head.clone();
        for line in used().map(|(_, line)| line).chain(text) {
            names.rewrite(line, &mut ptx);
        }
        let name = (*name).to_owned();
        KernelModule { name, ptx }
    };
    let mut kernels: Vec<KernelModule> = kernels.iter().map(module).collect();
    kernels.sort_by(|one, two| one.name.cmp(&two.name));
    Ok(kernels)
}

/// Returns the lines after an entry's first, up to the brace that ends its body. Inline assembly has
/// braces, too.
fn rest_of_entry<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let (mut text, mut opened, mut closed) = (Vec::new(), 0, 0);
    for line in lines {
        text.push(line);
        opened += line.matches('{').count();
        closed += line.matches('}').count();
        if opened > 0 && opened == closed {
            break;
        }
    }
    text
}

/// The kind of a line at the top level of a module.
enum Item<'a> {
    Directive,
    Variable(&'a str),
    Entry(&'a str),
    Empty,
    Unknown,
}

fn top_level(line: &str) -> Item<'_> {
    let linkage = [".visible ", ".extern ", ".weak "];
    let plain = linkage
        .iter()
        .find_map(|linkage| line.strip_prefix(linkage))
        .unwrap_or(line);
    let starts = |prefixes: &[&str]| prefixes.iter().any(|&prefix| plain.starts_with(prefix));
    if line.trim().is_empty() {
        Item::Empty
    } else if starts(&[".version ", ".target ", ".address_size "]) {
        Item::Directive
    } else if let Some(entry) = plain.strip_prefix(".entry ") {
        Item::Entry(entry.split('(').next().unwrap_or_default().trim())
    } else if starts(&[".shared ", ".global ", ".const "]) {
        // The name precedes the number of elements or the value.
        let declaration = plain.split(['[', '=', ';']).next().unwrap_or_default();
        declaration
            .split_whitespace()
            .next_back()
            .map_or(Item::Unknown, Item::Variable)
    } else {
        Item::Unknown
    }
}

/// Returns the words of a line: identifiers and numbers.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !is_of_word(c))
        .filter(|word| !word.is_empty())
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

/// New names for the labels and constants that the compiler numbers throughout the module.
struct Names<'a> {
    constants: HashMap<&'a str, String>,
}

impl Names<'_> {
    /// Appends a line with its words renamed.
    fn rewrite(&self, line: &str, out: &mut String) {
        let mut rest = line;
        while let Some(start) = rest.find(is_of_word) {
            let (before, from) = rest.split_at(start);
            let end = from.find(|c| !is_of_word(c)).unwrap_or(from.len());
            let (word, after) = from.split_at(end);
            out.push_str(before);
            match (self.constants.get(word), label(word)) {
                (Some(name), _) => out.push_str(name),
                (None, Some(number)) => out.extend(["$L_", number]),
                (None, None) => out.push_str(word),
            }
            rest = after;
        }
        out.extend([rest, "\n"]);
    }
}

/// Returns the number within its kernel of a label `$L__BB<kernel>_<number>`.
fn label(word: &str) -> Option<&str> {
    let (kernel, number) = word.strip_prefix("$L__BB")?.split_once('_')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    (is_number(kernel) && is_number(number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
.version 8.0
.target sm_80
.address_size 64
.shared .align 128 .b8 WARPS[128];
.extern .shared .align 128 .b8 dynamic[];
.global .align 4 .b8 switch_$_table_$_b[4] = {8, 0, 0, 0};
.global .align 4 .b8 switch_$_table_$_b7[4] = {9};
.visible .entry b(
\t.param .u64 b_param_0
)
.maxntid 256, 1, 1
{
\tmov.u32 \t%r1, WARPS;
{ // a block
\tmov.u64 \t%rd1, switch_$_table_$_b7;
}
$L__BB3_12:
\tbra \t$L__BB3_12;
}
.visible .entry a()
{
\tmov.u32 %r1, dynamic; mov.u32 %r2, WARPS2;
}
";

    #[test]
    fn a_kernel_has_the_head_its_variables_and_its_entry() {
        let kernels = split(MODULE).unwrap();
        let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
        let a = ".extern .shared .align 128 .b8 dynamic[];\n.visible .entry a()\n{\n\
                 \tmov.u32 %r1, dynamic; mov.u32 %r2, WARPS2;\n}\n";
        assert_eq!(kernels[0].ptx, format!("{head}{a}"));
        let b = ".shared .align 128 .b8 WARPS[128];\n\
                 .global .align 4 .b8 constant_0[4] = {9};\n\
                 .visible .entry b(\n\t.param .u64 b_param_0\n)\n.maxntid 256, 1, 1\n{\n\
                 \tmov.u32 \t%r1, WARPS;\n{ // a block\n\tmov.u64 \t%rd1, constant_0;\n}\n\
                 $L_12:\n\tbra \t$L_12;\n}\n";
        assert_eq!(kernels[1].ptx, format!("{head}{b}"));
    }

    #[test]
    fn a_kernel_is_the_same_whatever_else_the_module_has() {
        let renumbered = MODULE.replace("BB3_", "BB17_").replace("_$_b7", "_$_b912");
        assert_eq!(split(&renumbered).unwrap(), split(MODULE).unwrap());
        let changed = split(&MODULE.replace("{9}", "{7}")).unwrap();
        let before = split(MODULE).unwrap();
        assert_eq!(changed[0].hash(), before[0].hash());
        assert_ne!(changed[1].hash(), before[1].hash());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let function = MODULE.replace(".visible .entry a", ".func a");
        let error = split(&function).unwrap_err().to_string();
        assert_eq!(
            error,
            "PTX: `.func a()` is neither variable nor entry of a kernel"
        );
    }
}
