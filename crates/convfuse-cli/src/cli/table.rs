//! Aligned tables.

use comfy_table::{CellAlignment, Table, presets};

/// Creates a table without lines under this header. Print it with `trim_fmt`.
pub(super) fn aligned<const N: usize>(header: [(&str, CellAlignment); N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.map(|(title, _)| title));
    for (column, (_, alignment)) in table.column_iter_mut().zip(header) {
        column.set_padding((2, 0));
        column.set_cell_alignment(alignment);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let header = [
            ("strategy", CellAlignment::Left),
            ("ms", CellAlignment::Right),
        ];
        let mut table = aligned(header);
        table.add_row(["unfused", "12.5"]).add_row(["x", "3.25"]);
        let lines = ["  strategy    ms", "  unfused   12.5", "  x         3.25"];
        assert_eq!(table.trim_fmt(), lines.join("\n"));
    }
}
