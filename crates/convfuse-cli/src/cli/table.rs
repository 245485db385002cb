//! Aligned tables.

use std::fmt;

/// Rows of text under a header; the first column and those that say so are aligned left, numbers right.
pub(super) struct Table {
    header: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Copy)]
pub(super) enum Column {
    Left(&'static str),
    Right(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Left(title) | Column::Right(title) => title,
        }
    }
}

impl Table {
    pub(super) fn new(header: &[Column]) -> Table {
        Table {
            header: header.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.header.len());
        self.rows.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |index: usize| {
            let cells = self.rows.iter().map(|row| row[index].chars().count());
            cells
                .chain([self.header[index].title().len()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let mut line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for ((cell, column), width) in cells.zip(&self.header).zip(&widths) {
                match column {
                    Column::Left(_) => text += &format!("  {cell:<width$}"),
                    Column::Right(_) => text += &format!("  {cell:>width$}"),
                }
            }
            writeln!(f, "{}", text.trim_end())
        };
        line(&mut self.header.iter().map(|column| column.title()))?;
        for row in &self.rows {
            line(&mut row.iter().map(String::as_str))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[Column::Left("strategy"), Column::Right("ms")]);
        table.row(["unfused".into(), "12.5".into()]);
        table.row(["x".into(), "3.25".into()]);
        assert_eq!(
            table.to_string(),
            "  strategy    ms\n  unfused   12.5\n  x         3.25\n"
        );
    }
}
