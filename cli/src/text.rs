//! Rows of text: columns for people, and CSV.

/// Rows with aligned columns, two blanks apart, without blanks at the ends of lines.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..).map_while(widest).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A row of CSV (RFC 4180): quotes around what holds a comma, a quote or a line end.
pub(crate) fn csv_row(fields: &[String]) -> String {
    let quoted = |field: &String| match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "bb"], ["ccc", "d"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "a    bb\nccc  d\n");
    }
}
