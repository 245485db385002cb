//! Golden files: inputs, parameters, and outputs that PyTorch computed from them in float64.
//!
//! Each file is one case in safetensors' format. Its metadata entry `case` is a JSON object with the
//! operator (`op`), its `attributes`, and the `shapes` of its tensors. The tensors are the f32 inputs and
//! the float64 output `out`. A full-size case omits its input, which is
//! [`fill(x_seed, shape)`](crate::data::fill). It has only some elements of its output, at `index` of the
//! flattened tensor, and the mean of all.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::golden_file::{Output, Reader};
use crate::{Case, Expected, Precision, tables};

pub use crate::golden_file::GoldenFlaw;

/// The reason why a golden file, or a folder of them, cannot be used.
#[derive(Debug)]
pub struct GoldenError {
    /// The file or folder.
    pub path: PathBuf,
    /// The flaw.
    pub flaw: Box<GoldenFlaw>,
}

impl fmt::Display for GoldenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.flaw)
    }
}

impl Error for GoldenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.flaw.source()
    }
}

/// Adds the file's path to a flaw.
fn of_file<T>(path: &Path, result: Result<T, GoldenFlaw>) -> Result<T, GoldenError> {
    result.map_err(|flaw| GoldenError {
        path: path.to_owned(),
        flaw: Box::new(flaw),
    })
}

/// A case with outputs computed by PyTorch.
#[derive(Clone, Debug)]
pub struct GoldenCase {
    /// The case. Its name contains the file's.
    pub case: Case,
    path: PathBuf,
    output_shape: Vec<usize>,
    output: Output,
}

impl GoldenCase {
    /// Whether this is a full-size problem, with only some known output elements.
    #[must_use]
    pub fn is_full_size(&self) -> bool {
        self.output.index.is_some()
    }

    /// PyTorch's values, with the tolerance of `precision`.
    ///
    /// # Errors
    /// [`GoldenFlaw::Chain`] and [`GoldenFlaw::OutputShape`] for inconsistent files.
    pub fn expected(&self, precision: &Precision) -> Result<Expected, GoldenError> {
        of_file(&self.path, self.expected_of_file(precision))
    }

    fn expected_of_file(&self, precision: &Precision) -> Result<Expected, GoldenFlaw> {
        let reference = self.case.expected(precision).map_err(GoldenFlaw::Chain)?;
        if reference.shape() != self.output_shape {
            return Err(GoldenFlaw::OutputShape {
                actual: self.output_shape.clone(),
                expected: reference.shape().to_vec(),
            });
        }
        let output = &self.output;
        let expected = reference.around(output.values.clone(), output.index.clone());
        Ok(match output.mean {
            Some(mean) => expected.with_mean(mean, &reference),
            None => expected,
        })
    }
}

/// The golden files of `folder`, sorted by name.
///
/// # Errors
/// [`GoldenFlaw::Folder`].
pub fn files(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>, GoldenError> {
    let folder = folder.as_ref();
    let list = || {
        std::fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<Vec<_>>>()
    };
    let mut files = of_file(folder, list().map_err(GoldenFlaw::Folder))?;
    files.retain(|file| file.extension().is_some_and(|name| name == "safetensors"));
    files.sort();
    Ok(files)
}

/// Reads one golden file.
///
/// # Errors
/// [`GoldenError`].
pub fn load(path: impl AsRef<Path>) -> Result<GoldenCase, GoldenError> {
    let path = path.as_ref();
    of_file(path, read(path))
}

fn read(path: &Path) -> Result<GoldenCase, GoldenFlaw> {
    let mut reader = Reader::open(path)?;
    let mut output = reader.output()?;
    let op = reader.operator();
    let Some(cases) = tables::all().find(|cases| cases.golden == op) else {
        return Err(GoldenFlaw::UnknownOperator { op: op.to_owned() });
    };
    let case = (cases.read)(&mut reader)?;
    output.divide(reader.factor());
    let output_shape = reader.finish()?;
    Ok(GoldenCase {
        case,
        path: path.into(),
        output_shape,
        output,
    })
}
