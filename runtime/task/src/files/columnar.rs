//! Rows of Apache Parquet files.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row as ParquetRow};
use parquet::schema::types::{Type, TypePtr};
use rtc_compiler::ir::formula::thousands;
use serde_json::Value;

use super::open::regular;
use super::pages::{PageClaims, claims};
use super::records::{MAX_PACKED_ROWS, MAX_UNPACKED};
use super::{Column, FileCell, FileRow, ListTexts, MAX_PAGE, MAX_VALUES, SeenRow};
use crate::error::{DataError, unknown};
use crate::reading::unreadable;
use rtc_base::panics::caught;
use rtc_compiler::ir::formula::bytes;

/// The rows of a file, by their numbers from 1.
pub(super) struct ColumnarRows {
    path: PathBuf,
    rows: RowIter<'static>,
    columns: Vec<ReadColumn>,
    number: usize,
    /// Bytes of the cells that were read.
    bytes: u64,
    broken: bool,
}

/// A column that is read.
struct ReadColumn {
    name: String,
    /// Its index among those that are decoded.
    index: usize,
    /// The names of its classes, in the order of their numbers.
    classes: Option<Vec<String>>,
}

/// Opens a file; with `class_names`, numbers of classes are read as the names that the file has for them.
///
/// # Errors
/// What is no Parquet file, a column that is not there, and a file that unpacks to more than is read.
pub(super) fn rows(path: &Path, columns: &[Column], class_names: bool) -> Result<ColumnarRows, DataError> {
    let (file, reader) = reader(path)?;
    let projection = guarded(|| Ok(projection(reader.metadata().file_metadata().schema(), columns)));
    let projection = projection.map_err(|why| no_file(path, &why))?.map_err(|why| unreadable(path, why))?;
    let decoded = projection.get_fields().iter().enumerate();
    let decoded: HashMap<&str, usize> = decoded.map(|(place, field)| (field.name(), place)).collect();
    let features = if class_names { features(reader.metadata()) } else { None };
    let read = |column: &Column| {
        let name = column.to_string();
        let index = decoded.get(&*name).copied().expect("the projection has every column");
        let classes = features.as_ref().and_then(|features| classes(features.get(&name)?));
        ReadColumn { name, index, classes }
    };
    let read: Vec<ReadColumn> = columns.iter().map(read).collect();
    let claimed = guarded(|| claimed(&file, reader.metadata(), columns)).map_err(|why| no_file(path, &why))?;
    if let Some(why) = too_large(reader.metadata().file_metadata().num_rows(), claimed) {
        return Err(unreadable(path, why));
    }
    let rows = guarded(|| RowIter::from_file_into(Box::new(reader)).project(Some(projection)));
    let rows = rows.map_err(|why| no_file(path, &why))?;
    Ok(ColumnarRows { path: path.to_owned(), rows, columns: read, number: 0, bytes: 0, broken: false })
}

/// The names of the columns of a file.
pub(super) fn names(path: &Path) -> Result<Vec<String>, DataError> {
    let (_, reader) = reader(path)?;
    let schema = reader.metadata().file_metadata().schema();
    let names: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
    let mut known = HashSet::new();
    match names.iter().find(|name| !known.insert(name.as_str())) {
        Some(name) => Err(unreadable(path, twice(name))),
        None => Ok(names),
    }
}

/// Whether a file has names for the classes of each of some columns.
pub(super) fn class_names(path: &Path, columns: &[Column]) -> Result<Vec<bool>, DataError> {
    let (_, reader) = reader(path)?;
    let features = features(reader.metadata());
    let named = |column: &Column| features.as_ref()?.get(column.to_string()).and_then(classes);
    Ok(columns.iter().map(|column| named(column).is_some()).collect())
}

/// The features of the columns, as Hugging Face's `datasets` saves them in the metadata of a file.
fn features(metadata: &ParquetMetaData) -> Option<Value> {
    let saved = metadata.file_metadata().key_value_metadata()?.iter().find(|pair| pair.key == "huggingface")?;
    let mut read: Value = serde_json::from_str(saved.value.as_ref()?).ok()?;
    Some(read.get_mut("info")?.get_mut("features")?.take())
}

/// The names of the classes of a feature: of a `ClassLabel`, or of a list of them.
fn classes(feature: &Value) -> Option<Vec<String>> {
    if feature.get("_type").and_then(Value::as_str) == Some("ClassLabel") {
        let names = feature.get("names")?.as_array()?;
        return names.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    }
    feature.get("feature").or_else(|| feature.get(0)).and_then(classes)
}

/// A file with its reader, which moves the same position in it.
fn reader(path: &Path) -> Result<(File, SerializedFileReader<File>), DataError> {
    let file = regular(path).map_err(|error| unreadable(path, error))?;
    let own = file.try_clone().map_err(|error| unreadable(path, error))?;
    guarded(|| SerializedFileReader::new(own)).map(|reader| (file, reader)).map_err(|why| no_file(path, &why))
}

/// What the pages of the columns claim, each of which lies in a part of the file of its own.
fn claimed(file: &File, metadata: &ParquetMetaData, columns: &[Column]) -> Result<PageClaims, ParquetError> {
    let wanted: HashSet<String> = columns.iter().map(Column::to_string).collect();
    let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    let read =
        |chunk: &&ColumnChunkMetaData| chunk.column_path().parts().first().is_some_and(|root| wanted.contains(root));
    let (mut all, mut left) = (PageClaims::default(), file.metadata()?.len());
    for chunk in chunks.filter(read) {
        let (start, length) = chunk.byte_range();
        left = left.checked_sub(length).ok_or_else(|| ParquetError::General(PARTS.to_owned()))?;
        all = all + claims(file, start, length)?;
    }
    Ok(all)
}

/// Why a file is too large, before any of it is unpacked.
fn too_large(rows: i64, claimed: PageClaims) -> Option<String> {
    let more = |what: &str, count: u64, most: u64| {
        let [count, most] = [count, most].map(|number| thousands(&number.to_string()));
        format!("the file has {count} {what}, and at most {most} are read of a Parquet file{WRITE}")
    };
    let large = |what: &str, most: u64| format!("{what} of the file unpacks to more than {}{WRITE}", bytes(most));
    match claimed {
        _ if rows.unsigned_abs() > MAX_PACKED_ROWS as u64 => {
            Some(more("rows", rows.unsigned_abs(), MAX_PACKED_ROWS as u64))
        }
        PageClaims { values, .. } if values > MAX_VALUES => Some(more("values", values, MAX_VALUES)),
        PageClaims { largest, .. } if largest > MAX_PAGE => Some(large("a page", MAX_PAGE)),
        PageClaims { bytes, .. } if bytes > MAX_UNPACKED => Some(large("what is read", MAX_UNPACKED)),
        _ => None,
    }
}

const WRITE: &str = ": write it as .csv or .jsonl, which are read as they are needed, or in several files";

fn no_file(path: &Path, why: &str) -> DataError {
    unreadable(path, format!("this is no whole Parquet file: {why}"))
}

const PARTS: &str = "its parts do not fit together";

/// The decoder's own checks are not complete: what it would end the program for is an error of the file here.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    caught(work).ok_or_else(|| PARTS.to_owned())?.map_err(|error| error.to_string())
}

/// The schema of the columns alone, in the order in which the file has them.
fn projection(schema: &Type, columns: &[Column]) -> Result<Type, String> {
    let names: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    names.iter().for_each(|name| *counts.entry(*name).or_default() += 1);
    let wanted: Vec<String> = columns.iter().map(Column::to_string).collect();
    for name in &wanted {
        match counts.get(name.as_str()) {
            None => return Err(unknown("column", name, &names)),
            Some(1) => {}
            Some(_) => return Err(twice(name)),
        }
    }
    let asked: HashSet<&str> = wanted.iter().map(String::as_str).collect();
    let kept: Vec<TypePtr> =
        schema.get_fields().iter().filter(|field| asked.contains(field.name())).map(Arc::clone).collect();
    Type::group_type_builder(schema.name()).with_fields(kept).build().map_err(|error| error.to_string())
}

fn twice(name: &str) -> String {
    format!("the file has the column `{name}` twice: rename one of the two")
}

impl ColumnarRows {
    /// The cells of a row, each made of its field by `cell`.
    fn cells<C: Default>(
        &self,
        row: ParquetRow,
        cell: impl Fn(&Field, &ReadColumn) -> Result<C, String>,
    ) -> Result<Vec<C>, String> {
        let fields = row.into_columns();
        let cell = |column: &ReadColumn| {
            let field = fields.get(column.index).filter(|(found, _)| *found == column.name);
            field.map_or_else(|| Ok(C::default()), |(_, field)| cell(field, column))
        };
        self.columns.iter().map(cell).collect()
    }

    /// The next row, read by `read`.
    fn advance<R>(&mut self, read: impl Fn(&Self, ParquetRow) -> Result<R, String>) -> Option<Result<R, DataError>> {
        if self.broken {
            return None;
        }
        self.number += 1;
        let next = guarded(|| self.rows.next().transpose()).transpose()?;
        let row = next.and_then(|row| {
            self.bytes = row.get_column_iter().map(|(_, field)| size(field)).fold(self.bytes, u64::saturating_add);
            if self.bytes > MAX_UNPACKED {
                return Err(format!("up to here the file unpacks to more than {}{WRITE}", bytes(MAX_UNPACKED)));
            }
            read(self, row)
        });
        self.broken = row.is_err();
        Some(row.map_err(|why| unreadable(&self.path, format!("row {}: {why}", self.number))))
    }

    /// The rows for a first look: nothing in place of a value of a kind that no task takes, and numbers that are not finite as texts.
    pub(super) fn seen(mut self) -> impl Iterator<Item = Result<SeenRow, DataError>> + Send {
        let seen = |field: &Field, column: &ReadColumn| Ok(Some(cell(field, column, any_real).ok()));
        iter::from_fn(move || {
            self.advance(|rows, row| {
                let cells: Vec<Option<Option<FileCell>>> = rows.cells(row, seen)?;
                let cells = cells.into_iter().map(|cell| cell.unwrap_or(Some(FileCell::Missing))).collect();
                Ok(SeenRow { number: rows.number, cells })
            })
        })
    }
}

impl Iterator for ColumnarRows {
    type Item = Result<FileRow, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(|rows, row| {
            let cells = rows.cells(row, |field, column| cell(field, column, real))?;
            Ok(FileRow { number: rows.number, line: rows.number, offset: 0, bytes: 0, cells })
        })
    }
}

/// About the bytes of a value.
fn size(field: &Field) -> u64 {
    match field {
        Field::Str(text) => text.len() as u64,
        Field::Bytes(bytes) => bytes.len() as u64,
        Field::ListInternal(list) => list.elements().iter().map(size).fold(0, u64::saturating_add),
        _ => 8,
    }
}

/// The text of a number of a column of this name.
type RealText = fn(f64, &str, &str) -> Result<String, String>;

fn cell(field: &Field, column: &ReadColumn, real: RealText) -> Result<FileCell, String> {
    let text = |field: &Field| match &column.classes {
        Some(classes) => class(field, &column.name, classes),
        None => plain(field, &column.name, real),
    };
    match field {
        Field::Null => Ok(FileCell::Missing),
        Field::ListInternal(list) => {
            let items = |items: &[Field]| items.iter().map(text).collect::<Result<ListTexts, _>>();
            let inner =
                |item: &Field| if let Field::ListInternal(own) = item { Some(items(own.elements())) } else { None };
            match list.elements().iter().map(inner).collect::<Option<Result<Vec<_>, _>>>() {
                Some(lists) if !list.elements().is_empty() => lists.map(FileCell::Lists),
                _ => items(list.elements()).map(FileCell::List),
            }
        }
        field => Ok(text(field)?.map_or(FileCell::Missing, FileCell::Text)),
    }
}

/// The name of a class; -1 is a missing one, as in Hugging Face's `datasets`.
fn class(field: &Field, column: &str, classes: &[String]) -> Result<Option<String>, String> {
    let number = match field {
        Field::Null => return Ok(None),
        Field::Byte(value) => i64::from(*value),
        Field::Short(value) => i64::from(*value),
        Field::Int(value) => i64::from(*value),
        Field::Long(value) => *value,
        _ => return Err(format!("`{column}` has names of classes, and a cell is no whole number")),
    };
    let named = usize::try_from(number).ok().and_then(|number| classes.get(number));
    match named {
        None if number != -1 => Err(format!(
            "`{column}` has class {number}, and the file names the classes 0 to {}",
            classes.len().max(1) - 1
        )),
        named => Ok(named.cloned()),
    }
}

fn plain(field: &Field, name: &str, real: RealText) -> Result<Option<String>, String> {
    let text = match field {
        Field::Null => return Ok(None),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => str::from_utf8(bytes.data())
            .map_err(|_| format!("`{name}` holds bytes that are not UTF-8 text"))?
            .to_owned(),
        Field::Bool(value) => value.to_string(),
        Field::Byte(value) => value.to_string(),
        Field::Short(value) => value.to_string(),
        Field::Int(value) => value.to_string(),
        Field::Long(value) => value.to_string(),
        Field::UByte(value) => value.to_string(),
        Field::UShort(value) => value.to_string(),
        Field::UInt(value) => value.to_string(),
        Field::ULong(value) => value.to_string(),
        Field::Float16(value) => real(f64::from(f32::from(*value)), &f32::from(*value).to_string(), name)?,
        Field::Decimal(_) => whole_or_short(&field.to_string()),
        Field::Float(value) => real(f64::from(*value), &value.to_string(), name)?,
        Field::Double(value) => real(*value, &value.to_string(), name)?,
        _ => return Err(format!("`{name}` is of a kind that is neither text nor a number, nor a list of these")),
    };
    Ok(Some(text))
}

/// The digits of a decimal number without zeros at the end of its fraction.
fn whole_or_short(digits: &str) -> String {
    let short = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// The text of any number: `NaN` and `inf` are no numbers to a reader of texts.
fn any_real(value: f64, text: &str, name: &str) -> Result<String, String> {
    if value.is_finite() { real(value, text, name) } else { Ok(value.to_string()) }
}

/// The text of a finite number; zero has no sign.
fn real(value: f64, text: &str, name: &str) -> Result<String, String> {
    match value {
        value if !value.is_finite() => {
            Err(format!("`{name}` holds {value}, which is no number: write null for a value that is missing"))
        }
        0.0 => Ok("0".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use parquet::basic::Repetition;
    use parquet::data_type::{DoubleType, Int32Type};
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn columns_of_a_schema_are_found_by_name() {
        let field = |name: &str| {
            let built = Type::primitive_type_builder(name, parquet::basic::Type::INT32)
                .with_repetition(Repetition::OPTIONAL)
                .build()
                .expect("valid");
            Arc::new(built)
        };
        let schema = Type::group_type_builder("s").with_fields(vec![field("a"), field("b")]).build().expect("valid");
        let kept = projection(&schema, &[Column::Name("b".into())]).expect("it is there");
        assert_eq!(kept.get_fields().len(), 1);
        let error = projection(&schema, &[Column::Name("c".into())]).expect_err("there is none");
        assert!(error.contains("there is no column `c`"), "{error}");
        let fields = vec![field("a"), field("b"), field("a")];
        let schema = Type::group_type_builder("s").with_fields(fields).build().expect("valid");
        assert!(projection(&schema, &[Column::Name("b".into())]).is_ok());
        let error = projection(&schema, &[Column::Name("a".into())]).expect_err("there are two");
        assert!(error.contains("the column `a` twice"), "{error}");
    }

    #[test]
    fn numbers_are_finite_and_zero_has_no_sign() {
        assert_eq!(plain(&Field::Double(-0.0), "a", real), Ok(Some("0".to_owned())));
        assert_eq!(plain(&Field::Float(0.1), "a", real), Ok(Some("0.1".to_owned())));
        assert_eq!(plain(&Field::Double(1.0), "a", real), Ok(Some("1".to_owned())));
        for field in [Field::Double(f64::NAN), Field::Float(f32::INFINITY)] {
            let error = plain(&field, "a", real).expect_err("no number");
            assert!(error.contains("write null for a value that is missing"), "{error}");
        }
    }

    /// A few bytes hold any number of missing values.
    #[test]
    fn rows_are_counted_before_they_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.parquet");
        let schema = Arc::new(parse_message_type("message s { optional int32 v; }").expect("a schema"));
        let file = File::create(&path).expect("a new file");
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
        let mut group = writer.next_row_group().expect("a group");
        let mut column = group.next_column().expect("a column").expect("the first");
        let none = vec![0; MAX_PACKED_ROWS + 1];
        column.typed::<Int32Type>().write_batch(&[], Some(&none), None).expect("written");
        column.close().expect("closed");
        group.close().expect("closed");
        writer.close().expect("closed");
        let error = rows(&path, &[Column::Name("v".into())], false).err().expect("too many").to_string();
        assert!(error.contains("the file has 16,777,217 rows, and at most 16,777,216 are read"), "{error}");
    }

    #[test]
    fn sizes_are_limited_before_anything_is_unpacked() {
        let claims = |bytes, largest, values| PageClaims { bytes, largest, values };
        assert_eq!(too_large(1, claims(MAX_UNPACKED, MAX_PAGE, MAX_VALUES)), None);
        for (claimed, why) in [
            (claims(2_147_483_647, 2_147_483_647, 1), "a page of the file unpacks to more than 256 MiB"),
            (claims(MAX_UNPACKED + 1, MAX_PAGE, 1), "unpacks to more than 8 GiB"),
            (claims(1, 1, MAX_VALUES + 1), "the file has 134,217,729 values"),
        ] {
            let error = too_large(1, claimed).expect(why);
            assert!(error.contains(why), "{error}");
        }
    }

    /// A file of numbers with what `datasets` writes of its column.
    fn labelled(path: &Path, numbers: &[i32], feature: &str) {
        let pair =
            KeyValue::new("huggingface".to_owned(), format!(r#"{{"info": {{"features": {{"v": {feature}}}}}}}"#));
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![pair])).build();
        let schema = Arc::new(parse_message_type("message s { required int32 v; }").expect("a schema"));
        let file = File::create(path).expect("a new file");
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).expect("a writer");
        let mut group = writer.next_row_group().expect("a group");
        let mut column = group.next_column().expect("a column").expect("the first");
        column.typed::<Int32Type>().write_batch(numbers, None, None).expect("written");
        column.close().expect("closed");
        group.close().expect("closed");
        writer.close().expect("closed");
    }

    #[test]
    fn classes_have_the_names_of_the_file_if_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, v) = (folder.path().join("a.parquet"), [Column::Name("v".into())]);
        let cells = |named: bool| -> Result<Vec<FileCell>, DataError> {
            rows(&path, &v, named)?.map(|row| Ok(row?.cells.remove(0))).collect()
        };
        let text = |text: &str| FileCell::Text(text.to_owned());
        const NAMES: &str = r#"{"names": ["no", "yes"], "_type": "ClassLabel"}"#;
        labelled(&path, &[1, 0, -1], NAMES);
        assert_eq!(class_names(&path, &v).expect("readable"), [true]);
        assert_eq!(cells(true).expect("readable"), [text("yes"), text("no"), FileCell::Missing]);
        assert_eq!(cells(false).expect("readable"), [text("1"), text("0"), text("-1")]);
        labelled(&path, &[0, 2], NAMES);
        let error = cells(true).expect_err("the file names two").to_string();
        assert!(error.contains("row 2: `v` has class 2, and the file names the classes 0 to 1"), "{error}");
        for (feature, named) in [
            (r#"{"feature": {"names": ["a"], "_type": "ClassLabel"}, "_type": "Sequence"}"#, true),
            (r#"[{"names": ["a"], "_type": "ClassLabel"}]"#, true),
            (r#"{"dtype": "int32", "_type": "Value"}"#, false),
            (r#"{"names": "a", "_type": "ClassLabel"}"#, false),
        ] {
            labelled(&path, &[0], feature);
            assert_eq!(class_names(&path, &v).expect("readable"), [named], "{feature}");
        }
    }

    #[test]
    fn lists_of_lists_are_read_as_they_stand() {
        const SCHEMA: &str = "message s { required group v (LIST) { repeated group list { required group element (LIST) { \
                              repeated group list { required double element; } } } } }";
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.parquet");
        let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
        let file = File::create(&path).expect("a new file");
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
        let mut group = writer.next_row_group().expect("a group");
        let mut column = group.next_column().expect("a column").expect("the first");
        // [[1, 2], [3, 4]] and [[5]]: where a row, a list and a number begin.
        let written =
            column.typed::<DoubleType>().write_batch(&[1.0, 2.0, 3.0, 4.0, 5.0], Some(&[2; 5]), Some(&[0, 2, 1, 2, 0]));
        assert_eq!(written.expect("written"), 5);
        column.close().expect("closed");
        group.close().expect("closed");
        writer.close().expect("closed");
        let (file, reader) = reader(&path).expect("readable");
        let claimed = claimed(&file, reader.metadata(), &[Column::Name("v".into())]).expect("as they were written");
        assert_eq!(claimed.values, 10, "five in the dictionary, and five that point there");
        let found: Vec<Vec<FileCell>> = rows(&path, &[Column::Name("v".into())], false)
            .expect("readable")
            .map(|row| row.expect("readable").cells)
            .collect();
        let list = |numbers: &[f64]| numbers.iter().map(|x| Some(x.to_string())).collect::<ListTexts>();
        let lists = [vec![list(&[1.0, 2.0]), list(&[3.0, 4.0])], vec![list(&[5.0])]];
        assert_eq!(found, lists.map(|lists| vec![FileCell::Lists(lists)]));
    }
}
