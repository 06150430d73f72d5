//! A table within the width of a terminal: columns are cut, and then left out by rank, until a row fits.
//!
//! No line is wider than the terminal; wide characters count as two columns.

use std::io;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::style::{Style, StyledWriter};

/// The columns between two cells.
const GAP: usize = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) fit: Fit,
    pub(crate) align: Align,
    /// The column with the highest rank is left out first; 0 always stays.
    pub(crate) rank: u8,
}

/// Where the cells of a column begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    /// For figures.
    Right,
}

/// How a column becomes narrower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It does not.
    Whole,
    /// The end of its cells is cut, down to this width.
    CutEnd(usize),
    /// The middle of its cells is cut, down to this width.
    CutMiddle(usize),
}

/// A cell of a table, on one line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// A table with one cell for each column in every row.
pub(crate) struct Table<const N: usize> {
    pub(crate) columns: [Column; N],
    pub(crate) rows: Vec<[Cell; N]>,
}

/// The width of each column, `None` for one that is left out.
pub(crate) type Widths<const N: usize> = [Option<usize>; N];

impl<const N: usize> Table<N> {
    /// The widths that fit into a terminal. A column without content is left out.
    pub(crate) fn widths(&self, width: usize) -> Widths<N> {
        let natural: [usize; N] = std::array::from_fn(|index| {
            let cells = self.rows.iter().map(|row| width_of(&row[index].text));
            cells
                .max()
                .filter(|cells| *cells > 0)
                .map_or(0, |cells| cells.max(width_of(self.columns[index].title)))
        });
        let mut widths: Widths<N> = std::array::from_fn(|index| {
            (natural[index] > 0).then(|| natural[index].min(self.least(index).unwrap_or(usize::MAX)))
        });
        while total(&widths) > width {
            let kept = (0..N).filter(|index| widths[*index].is_some() && self.columns[*index].rank > 0);
            let Some(last) = kept.max_by_key(|index| self.columns[*index].rank) else { break };
            widths[last] = None;
        }
        self.widen(&mut widths, &natural, width);
        self.narrow(&mut widths, width);
        widths
    }

    /// The least width of a column that can be cut.
    fn least(&self, index: usize) -> Option<usize> {
        match self.columns[index].fit {
            Fit::Whole => None,
            Fit::CutEnd(least) | Fit::CutMiddle(least) => Some(least),
        }
    }

    /// Shares the rest of the width among the columns that have been cut, in proportion to their least widths.
    fn widen(&self, widths: &mut Widths<N>, natural: &[usize; N], width: usize) {
        loop {
            let rest = width.saturating_sub(total(widths));
            let cut = (0..N).filter(|index| widths[*index].is_some_and(|width| width < natural[*index]));
            let cut: Vec<usize> = cut.take(rest).collect();
            if cut.is_empty() {
                return;
            }
            let least = |index: usize| self.least(index).unwrap_or(1);
            let sum: usize = cut.iter().map(|index| least(*index)).sum();
            for index in cut {
                let share = (rest * least(index) / sum).max(1);
                widths[index] = widths[index].map(|width| (width + share).min(natural[index]));
            }
        }
    }

    /// Makes columns narrower than they should be, in a terminal that is narrower than all of them.
    fn narrow(&self, widths: &mut Widths<N>, width: usize) {
        for index in (0..N).filter(|index| self.least(*index).is_some()) {
            let excess = total(widths).saturating_sub(width);
            widths[index] = widths[index].map(|width| width.saturating_sub(excess).max(1));
        }
    }

    /// The titles of the columns.
    pub(crate) fn header(&self, widths: &Widths<N>) -> Vec<Cell> {
        let cells = self.columns.map(|column| Cell { text: column.title.to_owned(), style: Style::Dim });
        self.line(&cells, widths)
    }

    /// The cells of a row, each as wide as its column, the last one without padding.
    pub(crate) fn line(&self, row: &[Cell; N], widths: &Widths<N>) -> Vec<Cell> {
        let last = (0..N).rfind(|index| widths[*index].is_some());
        let shown = (0..N).filter_map(|index| {
            let width = widths[index]?;
            let mut text = match self.columns[index].fit {
                Fit::CutMiddle(_) => cut_middle(&row[index].text, width),
                Fit::Whole | Fit::CutEnd(_) => cut_end(&row[index].text, width),
            };
            let padding = width.saturating_sub(width_of(&text));
            if self.columns[index].align == Align::Right {
                text.insert_str(0, &" ".repeat(padding));
            } else if Some(index) != last {
                text.push_str(&" ".repeat(padding));
            }
            if Some(index) != last {
                text.push_str(&" ".repeat(GAP));
            }
            Some(Cell { text, style: row[index].style })
        });
        shown.collect()
    }

    /// Writes the header and all rows.
    pub(super) fn write(&self, width: usize, out: &mut StyledWriter<'_>) -> io::Result<()> {
        let widths = self.widths(width);
        write_line(&self.header(&widths), width, out)?;
        self.rows.iter().try_for_each(|row| write_line(&self.line(row, &widths), width, out))
    }
}

fn write_line(cells: &[Cell], width: usize, out: &mut StyledWriter<'_>) -> io::Result<()> {
    let mut room = width;
    let last = cells.iter().rposition(|cell| !cell.text.trim_end().is_empty());
    for (index, cell) in cells.iter().enumerate().take_while(|(index, _)| Some(*index) <= last) {
        let text = if Some(index) == last { cell.text.trim_end() } else { &cell.text };
        let text = cut_end(text, room);
        room = room.saturating_sub(width_of(&text));
        out.styled(cell.style, &text)?;
    }
    out.styled(Style::Plain, "\n")
}

fn total<const N: usize>(widths: &Widths<N>) -> usize {
    let shown = widths.iter().flatten().count();
    widths.iter().flatten().sum::<usize>() + GAP * shown.saturating_sub(1)
}

/// How many columns of a terminal a text takes.
pub(crate) fn width_of(text: &str) -> usize {
    text.width()
}

/// The beginning of a text, with an ellipsis if its end is cut.
pub(crate) fn cut_end(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    format!("{}…", beginning(text, room))
}

/// The beginning and the end of a text, with an ellipsis between them if it is cut.
fn cut_middle(text: &str, width: usize) -> String {
    let room = width.saturating_sub(1);
    if width_of(text) <= width || room < 4 {
        return cut_end(text, width);
    }
    let start = beginning(text, room / 3);
    let mut end = text.len();
    for (at, _) in text.grapheme_indices(true).rev() {
        if width_of(&start) + width_of(&text[at..]) > room {
            break;
        }
        end = at;
    }
    format!("{start}…{}", &text[end..])
}

/// As much of a text as fits.
fn beginning(text: &str, room: usize) -> String {
    let mut kept = String::new();
    for part in text.graphemes(true) {
        if width_of(&kept) + width_of(part) > room {
            break;
        }
        kept.push_str(part);
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;
    use crate::cli::Format;

    fn table(rows: &[[&str; 3]]) -> Table<3> {
        let column = |title, fit, rank| Column { title, fit, align: Align::Left, rank };
        let columns = [
            column("NAME", Fit::CutEnd(8), 0),
            column("PLACE", Fit::CutMiddle(6), 1),
            column("ID", Fit::Whole, 0),
        ];
        let cell = |text: &str| Cell { text: text.to_owned(), style: Style::Plain };
        Table { columns, rows: rows.iter().map(|row| row.map(cell)).collect() }
    }

    fn shown(rows: &[[&str; 3]], width: usize) -> String {
        let mut bytes = Vec::new();
        let mut out = StyledWriter::new(&mut bytes, Format::Text, true, false);
        table(rows).write(width, &mut out).unwrap();
        drop(out);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn table_columns_are_cut_and_then_left_out_in_a_narrow_terminal() {
        let rows = [["mend the roof", "/home/ada/project", "0199"], ["漢字漢字漢字", "/srv", "0200"]];
        insta::assert_snapshot!(shown(&rows, 80), @r"
        NAME           PLACE              ID
        mend the roof  /home/ada/project  0199
        漢字漢字漢字   /srv               0200
        ");
        insta::assert_snapshot!(shown(&rows, 30), @r"
        NAME           PLACE      ID
        mend the roof  /h…roject  0199
        漢字漢字漢字   /srv       0200
        ");
        insta::assert_snapshot!(shown(&rows, 16), @r"
        NAME        ID
        mend the …  0199
        漢字漢字…   0200
        ");
        insta::assert_snapshot!(shown(&rows, 8), @r"
        N…  ID
        m…  0199
        …   0200
        ");
        insta::assert_snapshot!(shown(&rows, 4), @r"
        …  …
        …  …
        …  …
        ");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(rows in proptest::collection::vec([".{0,30}", ".{0,30}", ".{0,12}"], 0..5), width in 1_usize..60) {
            let rows: Vec<[String; 3]> = rows.into_iter().map(|row| row.map(|text| super::super::on_one_line(&text))).collect();
            let rows: Vec<[&str; 3]> = rows.iter().map(|row| row.each_ref().map(String::as_str)).collect();
            let text = shown(&rows, width);
            prop_assert!(text.lines().all(|line| width_of(line) <= width), "{width}: {text}");
            prop_assert!(text.lines().count() == rows.len() + 1);
        }
    }
}
