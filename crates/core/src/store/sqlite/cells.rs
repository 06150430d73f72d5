//! One row of the file: the values of its columns in order, and the checksum over them. SQLite does not detect a
//! changed byte inside a value, so a row is used only after its checksum was verified.
//!
//! The checksum detects damage, not manipulation.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement, params_from_iter};

use super::fault::SqliteFault;
use crate::model::Timestamp;

/// The columns that a checksum covers, in its order.
pub(super) struct Columns<const N: usize> {
    pub(super) table: &'static str,
    pub(super) names: [&'static str; N],
    /// How many of them the first format had; migrations added the others.
    pub(super) first: usize,
    /// The columns and then their checksum, as a list for a statement.
    pub(super) list: &'static str,
}

macro_rules! columns {
    ($table:literal: $($name:literal),+; $(added $($added:literal),+;)? $checksum:literal) => {
        $crate::store::sqlite::cells::Columns {
            table: $table,
            names: [$($name),+ $(, $($added),+)?],
            first: [$($name),+].len(),
            list: concat!($($name, ", "),+, $($($added, ", "),+,)? $checksum),
        }
    };
}
pub(super) use columns;

impl<const N: usize> Columns<N> {
    /// The checksum over the values of a row. Trailing null values of added columns are left out, so a row that was
    /// written before a migration keeps its checksum.
    pub(super) fn checksum(&self, values: &[ValueRef<'_>; N]) -> i64 {
        let (first, added) = values.split_at(self.first);
        let present = added.iter().rposition(|value| *value != ValueRef::Null).map_or(0, |last| last + 1);
        checksum(&values[..first.len() + present])
    }
}

/// The values of a row, as stored.
pub(super) struct Cells<'a, const N: usize> {
    columns: &'static Columns<N>,
    values: [ValueRef<'a>; N],
}

impl<'a, const N: usize> Cells<'a, N> {
    /// Reads the columns from `first` on, and verifies the checksum that follows them.
    pub(super) fn read(
        row: &'a Row<'_>,
        first: usize,
        columns: &'static Columns<N>,
    ) -> Result<Self, SqliteFault> {
        let mut values = [ValueRef::Null; N];
        for (index, value) in (first..).zip(&mut values) {
            *value = row.get_ref(index)?;
        }
        let cells = Self { columns, values };
        if row.get_ref(first + N)? == ValueRef::Integer(columns.checksum(&cells.values)) {
            Ok(cells)
        } else {
            let Columns { table, names, .. } = columns;
            let problem =
                format!("a row of {table} ({} {}) is not what was written", names[0], shown(values[0]));
            Err(SqliteFault::Damaged(problem))
        }
    }

    /// The checksum of the row with other values in some of the columns.
    pub(super) fn checksum_with(&self, others: &[(&str, ValueRef<'_>)]) -> i64 {
        let mut values = self.values;
        for (name, value) in self.columns.names.iter().zip(&mut values) {
            if let Some((_, other)) = others.iter().find(|(column, _)| column == name) {
                *value = *other;
            }
        }
        self.columns.checksum(&values)
    }

    pub(super) fn value(&self, index: usize) -> ValueRef<'a> {
        self.values[index]
    }

    pub(super) fn integer(&self, index: usize) -> Result<i64, SqliteFault> {
        self.optional_integer(index)?.ok_or_else(|| self.unknown(index))
    }

    pub(super) fn optional_integer(&self, index: usize) -> Result<Option<i64>, SqliteFault> {
        match self.values[index] {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => Ok(Some(value)),
            ValueRef::Real(_) | ValueRef::Text(_) | ValueRef::Blob(_) => Err(self.unknown(index)),
        }
    }

    /// A count or number of the model.
    pub(super) fn number(&self, index: usize) -> Result<u64, SqliteFault> {
        u64::try_from(self.integer(index)?).map_err(|_| self.unknown(index))
    }

    pub(super) fn optional_number(&self, index: usize) -> Result<Option<u64>, SqliteFault> {
        self.optional_integer(index)?.map(|_| self.number(index)).transpose()
    }

    pub(super) fn time(&self, index: usize) -> Result<Timestamp, SqliteFault> {
        Timestamp::from_millis(self.integer(index)?).map_err(|_| self.unknown(index))
    }

    pub(super) fn optional_time(&self, index: usize) -> Result<Option<Timestamp>, SqliteFault> {
        self.optional_integer(index)?.map(|_| self.time(index)).transpose()
    }

    pub(super) fn text(&self, index: usize) -> Result<&'a str, SqliteFault> {
        self.optional_text(index)?.ok_or_else(|| self.unknown(index))
    }

    pub(super) fn optional_text(&self, index: usize) -> Result<Option<&'a str>, SqliteFault> {
        self.values[index].as_str_or_null().map_err(|_| self.unknown(index))
    }

    /// The value that a text stands for, if it is known.
    pub(super) fn parsed<T>(
        &self,
        index: usize,
        parse: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<T, SqliteFault> {
        parse(self.text(index)?).ok_or_else(|| self.unknown(index))
    }

    /// The error for a value that no program of this format writes.
    pub(super) fn unknown(&self, index: usize) -> SqliteFault {
        let Columns { table, names, .. } = self.columns;
        SqliteFault::Damaged(format!("{table}.{} holds what no version of ours writes", names[index]))
    }
}

/// A value for a message: a number, or the beginning of a text.
fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => format!("{:?}", String::from_utf8_lossy(&text[..text.len().min(80)])),
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => "-".to_owned(),
    }
}

/// Runs a statement whose parameters are the values of a row and then their checksum.
pub(super) fn write<const N: usize>(
    statement: &mut Statement<'_>,
    columns: &Columns<N>,
    values: [ValueRef<'_>; N],
) -> Result<(), rusqlite::Error> {
    let checksum = ValueRef::Integer(columns.checksum(&values));
    let parameters = values.into_iter().chain([checksum]).map(ToSqlOutput::Borrowed);
    statement.execute(params_from_iter(parameters)).map(drop)
}

/// A number of the model as a column value.
pub(super) fn number<'a>(number: u64) -> Result<ValueRef<'a>, SqliteFault> {
    Ok(ValueRef::Integer(i64::try_from(number)?))
}

pub(super) fn optional_number<'a>(value: Option<u64>) -> Result<ValueRef<'a>, SqliteFault> {
    value.map_or(Ok(ValueRef::Null), number)
}

pub(super) fn optional_integer<'a>(value: Option<i64>) -> ValueRef<'a> {
    value.map_or(ValueRef::Null, ValueRef::Integer)
}

/// How many column types fit into one word, at three bits each.
const TYPES_IN_A_WORD: usize = 21;

/// The checksum over values and their types.
pub(super) fn checksum(values: &[ValueRef<'_>]) -> i64 {
    let mut sum = Sum(0);
    for some in values.chunks(TYPES_IN_A_WORD) {
        sum.add(some.iter().fold(0, |types, value| (types << 3) | type_number(*value)));
    }
    for value in values {
        match value {
            ValueRef::Null => {}
            ValueRef::Integer(value) => sum.add(value.cast_unsigned()),
            ValueRef::Real(value) => sum.add(value.to_bits()),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => sum.add_bytes(bytes),
        }
    }
    sum.folded()
}

/// SQLite's type numbers.
fn type_number(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Integer(_) => 1,
        ValueRef::Real(_) => 2,
        ValueRef::Text(_) => 3,
        ValueRef::Blob(_) => 4,
        ValueRef::Null => 5,
    }
}

/// Multiplies and rotates, a word at a time. Each step is invertible, so two rows that differ in one word never have
/// the same 64 bits.
struct Sum(u64);

impl Sum {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    /// Words go to four sums in turn, which a processor can compute in parallel.
    fn add_bytes(&mut self, bytes: &[u8]) {
        let mut lanes = [const { Self(0) }; 4];
        let (blocks, rest) = bytes.as_chunks::<32>();
        let mut last = [0; 32];
        last[..rest.len()].copy_from_slice(rest);
        for block in blocks.iter().chain([&last]) {
            let (words, _) = block.as_chunks::<8>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                lane.add(u64::from_le_bytes(*word));
            }
        }
        self.add(bytes.len() as u64);
        for lane in lanes {
            self.add(lane.0);
        }
    }

    /// Folds to 32 bits, which cost half the space in a row and miss one damage in four thousand million.
    fn folded(&self) -> i64 {
        ((self.0 >> 32) ^ (self.0 & 0xFFFF_FFFF)).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_were_added_count_up_to_the_last_that_says_something() {
        const COLUMNS: Columns<4> = columns!["t": "a", "b"; added "c", "d"; "checksum"];
        assert_eq!((COLUMNS.first, COLUMNS.list), (2, "a, b, c, d, checksum"));
        let (null, one) = (ValueRef::Null, ValueRef::Integer(1));
        let rows = [[one, null, null, null], [one, null, one, null], [one, null, null, one], [one; 4]];
        let sums = rows.map(|row| COLUMNS.checksum(&row));
        let [first, second, third, fourth] = &rows;
        let expected = [checksum(&first[..2]), checksum(&second[..3]), checksum(third), checksum(fourth)];
        assert_eq!(sums, expected);
        assert_eq!(sums, [2_113_322_393, 2_629_136_718, 642_004_805, 1_959_740_883]);
    }

    #[test]
    fn checksum_is_stable_and_depends_on_value_and_type() {
        let row = [ValueRef::Integer(7), ValueRef::Null, ValueRef::Text(b"{\"jsonrpc\":\"2.0\"}")];
        let sum = checksum(&row);
        assert_eq!(sum, 1_137_134_182);
        let with = |index: usize, value| {
            let mut other = row;
            other[index] = value;
            checksum(&other)
        };
        let others = [
            with(0, ValueRef::Integer(8)),
            with(0, ValueRef::Null),
            with(0, ValueRef::Real(f64::from_bits(7))),
            with(1, ValueRef::Integer(0)),
            with(1, ValueRef::Text(b"")),
            with(2, ValueRef::Text(b"{\"jsonrpc\":\"2.1\"}")),
            with(2, ValueRef::Text(b"{\"jsonrpc\":\"2.0\"}\0")),
            with(2, ValueRef::Blob(b"{\"jsonrpc\":\"2.0\"}")),
            checksum(&row[..2]),
            checksum(&[row[1], row[0], row[2]]),
        ];
        assert!(!others.contains(&sum), "{others:?}");
    }
}
